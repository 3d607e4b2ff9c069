#include "gguf/reader.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "core/printable.hpp"

namespace heddle::gguf {
namespace {

constexpr std::uint64_t kMaxStringLength = std::uint64_t{1} << 30;
constexpr std::uint64_t kMaxArrayLength = std::uint64_t{1} << 30;

// The least a sound file can spend on one of each.
constexpr std::uint64_t kMinPairSize = 8 + 1 + 4 + 1;
constexpr std::uint64_t kMinTensorSize = 8 + 4 + 4 + 8;
constexpr std::uint64_t kMinStringSize = 8;

// Memory is taken in steps of at least this where the source may end earlier than it said.
constexpr std::size_t kStep = std::size_t{1} << 20;

/// A name from a file, fit for a message.
std::string shown(std::string_view name) {
    constexpr std::size_t kLongest = 80;
    const std::size_t length = whole_characters(name.substr(0, kLongest));
    return printable(name.substr(0, length)) + (name.size() > kLongest ? "..." : "");
}

class Reader {
public:
    explicit Reader(Source& source) : source_(source), file_(std::make_unique<File>()) {}

    Result<std::unique_ptr<File>> read() {
        HEDDLE_TRY(read_header());
        for (; pair_count_ > 0; --pair_count_, ++subject_.number) {
            subject_.kind = "key";
            HEDDLE_TRY(read_pair());
        }
        subject_.number = 0;
        for (; tensor_count_ > 0; --tensor_count_, ++subject_.number) {
            subject_.kind = "tensor";
            HEDDLE_TRY(read_tensor());
        }
        subject_ = {};
        HEDDLE_TRY(find_data());
        return std::move(file_);
    }

private:
    // ---- failures ------------------------------------------------------------------------------

    /// A failure in the field read last.
    template <class... Parts>
    [[gnu::cold]] Error bad(const Parts&... parts) const {
        std::string subject;
        if (!subject_.kind.empty()) {
            subject = text(subject_.kind, ' ', subject_.number);
            if (subject_.is_named) subject += " '" + shown(subject_.name) + "'";
            subject += ": ";
        }
        return failure(Errc::corrupt, "gguf: at byte ", field_at_, ": ", subject, parts...);
    }

    [[gnu::cold]] Error ended(std::string_view field, std::uint64_t size) const {
        return bad("the source ends in ", field, " of ", size, " bytes");
    }

    // ---- fields --------------------------------------------------------------------------------

    /// The source may read ahead `bytes` and what the pairs and tensors still to come need at
    /// least.
    void promise(std::uint64_t bytes) {
        source_.promise(bytes + pair_count_ * kMinPairSize + tensor_count_ * kMinTensorSize);
    }

    template <class T>
    Result<T> number(std::string_view field) {
        field_at_ = source_.position();
        T number;
        if (!source_.read(&number, sizeof number)) return ended(field, sizeof number);
        return number;
    }

    /// Reads `size` bytes, which `extend(n)` provides memory for. No more memory is taken than the
    /// source justifies.
    template <class Extend>
    bool read_bytes(std::uint64_t size, Extend&& extend) {
        if (size > source_.remaining()) return false;
        std::size_t step = source_.is_exact() ? size : kStep;
        while (size > 0) {
            const auto n = static_cast<std::size_t>(std::min<std::uint64_t>(size, step));
            if (!source_.read(extend(n), n)) return false;
            size -= n;
            step *= 2;
        }
        return true;
    }

    Result<std::uint64_t> read_length(std::string_view field, std::uint64_t limit) {
        HEDDLE_TRY_ASSIGN(const std::uint64_t length, number<std::uint64_t>(field));
        if (length > limit) return bad(field, ' ', length, ", at most ", limit);
        if (length > source_.remaining()) {
            return bad(field, ' ', length, ", but ", source_.remaining(), " bytes are left");
        }
        return length;
    }

    /// C programs ask for keys and tensors by names that end at the first NUL, and would take
    /// "alignment\0x" for "alignment".
    Result<> check_name() const {
        const std::size_t nul = subject_.name.find('\0');
        if (nul == std::string::npos) return ok();
        return bad("byte ", nul, " of its name is a NUL");
    }

    Result<ValueType> read_type(std::string_view field) {
        HEDDLE_TRY_ASSIGN(const auto type, number<std::int32_t>(field));
        if (!is_value_type(type)) return bad(field, ' ', type, ", not 0 to ", GGUF_TYPE_COUNT - 1);
        return static_cast<ValueType>(type);
    }

    // ---- parts ---------------------------------------------------------------------------------

    Result<> read_header() {
        source_.promise(24);
        HEDDLE_TRY_ASSIGN(const auto magic, (number<std::array<char, 4>>("the magic")));
        const std::string_view magic_text(magic.data(), magic.size());
        if (magic_text != GGUF_MAGIC) {
            return bad("the magic is '", shown(magic_text), "', not '" GGUF_MAGIC "'");
        }
        HEDDLE_TRY(read_version());
        HEDDLE_TRY_ASSIGN(const auto tensors, number<std::int64_t>("n_tensors"));
        if (tensors < 0) return bad("n_tensors ", tensors, ", at least 0");
        const std::uint64_t tensors_at = field_at_;
        HEDDLE_TRY_ASSIGN(const auto pairs, number<std::int64_t>("n_kv"));
        if (pairs < 0) return bad("n_kv ", pairs, ", at least 0");

        std::uint64_t left = source_.remaining();
        pair_count_ = static_cast<std::uint64_t>(pairs);
        if (pair_count_ > left / kMinPairSize) {
            return bad("n_kv ", pairs, " of at least ", kMinPairSize, " bytes each, but ", left,
                       " bytes are left");
        }
        left -= pair_count_ * kMinPairSize;
        tensor_count_ = static_cast<std::uint64_t>(tensors);
        if (tensor_count_ > left / kMinTensorSize) {
            field_at_ = tensors_at;
            return bad("n_tensors ", tensors, " of at least ", kMinTensorSize, " bytes each, but ",
                       left, " bytes are left");
        }
        return ok();
    }

    Result<> read_version() {
        HEDDLE_TRY_ASSIGN(const auto version, number<std::uint32_t>("the version"));
        if (version != 0 && (version & 0xFFFF) == 0) {
            return bad("version ", version,
                       ": the file has the other byte order than this machine");
        }
        if (version < 2 || version > GGUF_VERSION) {
            return bad("version ", version, ", not 2 to ", GGUF_VERSION);
        }
        file_->set_version(version);
        return ok();
    }

    Result<> read_pair() {
        promise(0);
        subject_.is_named = false;
        HEDDLE_TRY_ASSIGN(const auto length, read_length("key length", kMaxStringLength));
        const std::uint64_t key_at = field_at_;
        if (length == 0) return bad("the key is empty");
        promise(length);
        std::string& key = subject_.name;
        key.clear();
        const bool complete = read_bytes(length, [&](std::size_t n) {
            key.resize(key.size() + n);
            return key.data() + key.size() - n;
        });
        if (!complete) return ended("a key", length);
        subject_.is_named = true;
        HEDDLE_TRY(check_name());
        if (const auto first = file_->find_key(key)) {
            return bad("key ", *first, " has the same name");
        }
        HEDDLE_TRY_ASSIGN(Value value, read_value());
        if (auto set = file_->set(key, std::move(value)); !set) {
            field_at_ = key_at;
            return bad(set.error().message);
        }
        return ok();
    }

    Result<Value> read_value() {
        HEDDLE_TRY_ASSIGN(ValueType type, read_type("value type"));
        std::uint64_t count = 1;
        const bool is_array = type == GGUF_TYPE_ARRAY;
        if (is_array) {
            HEDDLE_TRY_ASSIGN(type, read_type("element type"));
            if (type == GGUF_TYPE_ARRAY) return bad("element type arr: arrays do not nest");
            HEDDLE_TRY_ASSIGN(count, number<std::uint64_t>("element count"));
            if (count > kMaxArrayLength) {
                return bad("element count ", count, ", at most ", kMaxArrayLength);
            }
        }
        const bool is_string = type == GGUF_TYPE_STRING;
        const std::uint64_t bytes = count * (is_string ? kMinStringSize : size_of(type));
        if (bytes > source_.remaining()) {
            return bad(count, " values of type ", name_of(type), " take at least ", bytes,
                       " bytes, but ", source_.remaining(), " are left");
        }
        promise(bytes);
        if (is_string) return read_strings(is_array, count);

        std::vector<std::byte> packed;
        field_at_ = source_.position();
        const bool complete = read_bytes(bytes, [&](std::size_t n) {
            packed.resize(packed.size() + n);
            return packed.data() + packed.size() - n;
        });
        if (!complete) return ended("a value", bytes);
        return Value::numbers(type, is_array, std::move(packed));
    }

    Result<Value> read_strings(bool is_array, std::uint64_t count) {
        StringList strings;
        // Eight bytes of every string are left in the source, and eight are taken here.
        if (source_.is_exact()) strings.reserve(count, 0);
        for (std::uint64_t left = count; left > 0; --left) {
            HEDDLE_TRY_ASSIGN(const auto length, read_length("string length", kMaxStringLength));
            promise(length + (left - 1) * kMinStringSize);
            if (!read_bytes(length, [&](std::size_t n) { return strings.extend(n); })) {
                return ended("a string", length);
            }
            strings.close();
        }
        return Value::strings(is_array, std::move(strings));
    }

    Result<> read_tensor() {
        promise(0);
        subject_.is_named = false;
        Tensor tensor{};
        HEDDLE_TRY_ASSIGN(const auto length, read_length("name length", GGML_MAX_NAME - 1));
        if (!source_.read(tensor.name, length)) return ended("a name", length);
        subject_.name.assign(tensor.name, length);
        subject_.is_named = true;
        HEDDLE_TRY(check_name());
        if (const auto first = file_->find_tensor(subject_.name)) {
            return bad("tensor ", *first, " has the same name");
        }
        HEDDLE_TRY(read_shape(tensor));
        HEDDLE_TRY_ASSIGN(const auto offset, number<std::uint64_t>("offset"));
        const std::size_t expected = file_->data_size();
        if (offset != expected) {
            return bad("offset ", offset, ", but the tensors before it end at ", expected,
                       " with alignment ", file_->alignment());
        }
        if (auto added = file_->add_tensor(tensor); !added) return bad(added.error().message);
        return ok();
    }

    Result<> read_shape(Tensor& tensor) {
        HEDDLE_TRY_ASSIGN(const auto dims, number<std::uint32_t>("n_dims"));
        if (dims > kMaxDims) return bad("n_dims ", dims, ", at most ", kMaxDims);
        Extents extent{1, 1, 1, 1};
        for (std::uint32_t d = 0; d < dims; ++d) {
            HEDDLE_TRY_ASSIGN(extent[d], number<std::int64_t>("an extent"));
            if (extent[d] < 0) return bad("extent ", extent[d], " in dimension ", d);
        }
        HEDDLE_TRY_ASSIGN(const auto type, number<std::int32_t>("type"));
        if (type < 0 || type >= GGML_TYPE_COUNT) {
            return bad("type ", type, ", not 0 to ", GGML_TYPE_COUNT - 1);
        }
        const TypeInfo& info = type_info(static_cast<Type>(type));
        if (info.block == 0) return bad("type ", type, " (", info.name, ") cannot be read");
        if (extent[0] % info.block != 0) {
            return bad("rows of ", extent[0], " elements of type ", info.name,
                       " are not a multiple of its block size ", info.block);
        }
        HEDDLE_TRY(check_size(info, extent));

        tensor.type = static_cast<Type>(type);
        const Strides stride = dense_strides(tensor.type, extent);
        std::copy(extent.begin(), extent.end(), tensor.ne);
        std::copy(stride.begin(), stride.end(), tensor.nb);
        return ok();
    }

    Result<> check_size(const TypeInfo& info, const Extents& extent) const {
        // An empty tensor takes no bytes, whatever its other extents are.
        if (std::find(extent.begin(), extent.end(), 0) != extent.end()) return ok();
        std::int64_t elements = 1;
        bool overflow = false;
        for (const std::int64_t n : extent) {
            overflow |= __builtin_mul_overflow(elements, n, &elements);
        }
        if (overflow || elements == INT64_MAX) {
            return bad("extents ", describe(extent), ": fewer than ", INT64_MAX,
                       " elements can be counted");
        }
        std::size_t bytes = 0;
        const auto blocks = static_cast<std::size_t>(elements / info.block);
        if (__builtin_mul_overflow(blocks, info.bytes, &bytes)) {
            return bad(elements, " elements of type ", info.name, ": at most ", SIZE_MAX,
                       " bytes can be counted");
        }
        return ok();
    }

    Result<> find_data() {
        const std::uint64_t at = source_.position();
        file_->set_data_offset(static_cast<std::size_t>(at));
        if (file_->tensors().empty()) return ok();
        const auto data = padded(static_cast<std::size_t>(at), file_->alignment());
        field_at_ = at;
        if (!data || *data - at > source_.remaining()) {
            return bad("the source ends in the padding to ", file_->alignment(),
                       " bytes before the data");
        }
        file_->set_data_offset(*data);
        return ok();
    }

    /// What is being read, for messages.
    struct Subject {
        std::string_view kind;
        std::uint64_t number = 0;
        bool is_named = false;
        std::string name;
    };

    Source& source_;
    std::unique_ptr<File> file_;
    std::uint64_t pair_count_ = 0;    // still to be read
    std::uint64_t tensor_count_ = 0;  // still to be read
    std::uint64_t field_at_ = 0;      // where the field read last begins
    Subject subject_;
};

}  // namespace

Result<std::unique_ptr<File>> read(Source& source) { return Reader(source).read(); }

}  // namespace heddle::gguf
