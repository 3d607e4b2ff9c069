#include "backends/mpi/tensor_offers.hpp"

namespace heddle::mpi {

void put_offer(ByteWriter& out, const TensorOffer& offer) {
    out.put(offer.size);
    out.raw(offer.begin);
}

Result<TensorOffer> get_offer(ByteReader& in) {
    TensorOffer offer;
    offer.size = in.get<std::uint64_t>();
    offer.begin = get_digest(in);
    if (in.finished() && offer.size >= TensorOffer::kLeast) return offer;
    return failure(Errc::corrupt, "an offer of a tensor that breaks off");
}

void put_matches(ByteWriter& out, const TensorMatches& matches) {
    out.put(matches.known);
    out.put(static_cast<std::uint8_t>(matches.matches.size()));
    for (const TensorMatch& match : matches.matches) {
        out.put(match.file);
        out.put(match.place);
        out.raw(match.digest);
    }
}

Result<TensorMatches> get_matches(ByteReader& in) {
    TensorMatches found;
    found.known = in.get<std::uint32_t>();
    const std::size_t count = in.get<std::uint8_t>();
    if (count > TensorMatches::kMost) in.fail();
    for (std::size_t i = 0; i < count && in.ok(); ++i) {
        TensorMatch& match = found.matches.emplace_back();
        match.file = in.get<std::uint32_t>();
        match.place = in.get<std::uint64_t>();
        match.digest = get_digest(in);
    }
    if (!in.finished()) return failure(Errc::corrupt, "a list of tensors that breaks off");
    return found;
}

}  // namespace heddle::mpi
