#include "core/type_table.hpp"

namespace heddle {

const TypeInfo& type_info(Type type) { return detail::find_type(type); }

}  // namespace heddle
