#include "backends/mpi/client/digest_offers.hpp"

namespace heddle::mpi {
namespace {

constexpr double kGigabit = 117e6;  ///< where the way was not measured

double speed_of(const Cluster::Link& link) {
    return link.bytes_per_second > 0 ? link.bytes_per_second : kGigabit;
}

}  // namespace

DigestOffers::DigestOffers(Cluster& cluster, int rank)
    : cluster_(cluster),
      rank_(rank),
      is_elsewhere_(cluster.facts(rank).boot != own_facts().boot),
      bytes_per_second_(speed_of(cluster.link(rank))) {}

std::optional<TensorMatch> DigestOffers::find(ByteView bytes, bool knows_files) {
    const Offering offering = cluster_.settings().offering;
    if (bytes.size() < TensorOffer::kLeast || offering == Offering::never) return std::nullopt;
    if (!knows_files && !cluster_.facts(rank_).has_folders) return std::nullopt;
    const std::lock_guard guard(lock_);
    if (knows_files != std::exchange(knew_files_, knows_files)) has_none_ = false;
    if (has_none_) return std::nullopt;
    if (offering == Offering::automatic && (!is_elsewhere_ || !is_worth_it())) return std::nullopt;
    const auto begin = Clock::now();
    const auto found = ask(bytes);
    spent_ += std::chrono::duration<double>(Clock::now() - begin).count();
    if (found) spared_ += static_cast<double>(bytes.size()) / bytes_per_second_;
    return found;
}

std::optional<TensorMatch> DigestOffers::ask(ByteView bytes) {
    const std::uint32_t request = cluster_.next_number();
    ByteWriter out = question(Kind::offer, request);
    put_offer(out, {bytes.size(), sha256(bytes.first(TensorOffer::kBegin))});
    const auto answer = cluster_.ask(rank_, request, seal(std::move(out)));
    ByteReader in(answer ? ByteView(*answer) : ByteView());
    const auto found = get_matches(in);
    has_none_ = !found || found->known == 0;
    if (has_none_ || found->matches.empty()) return std::nullopt;
    const auto digest = digest_of(bytes);
    if (!digest) return std::nullopt;
    for (const TensorMatch& match : found->matches) {
        if (match.digest == *digest) return match;
    }
    return std::nullopt;
}

}  // namespace heddle::mpi
