#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/llama.hpp"

/// A model cut over devices that work as one (tensor parallel): each has a part of every matrix of
/// a layer and of every cache, and computes what it can with that alone. Twice in a layer what they
/// have is added up.
namespace heddle::tool {

/// How much of each cut dimension the devices have, in their order.
struct Cut {
    std::vector<Device> devices;
    std::vector<std::int64_t> queries;    ///< elements of all heads of attention
    std::vector<std::int64_t> key_heads;  ///< elements of all heads of keys, and of values
    std::vector<std::int64_t> hidden;     ///< elements between the matrices of the network
    std::vector<std::int64_t> words;      ///< of the vocabulary
};

/// The most of a layer that one of them has, from 0 to 1.
double largest_part(const Cut& cut);

/// How `model` is cut over `devices`, as evenly as whole heads and whole blocks of its types allow.
/// Fails, with the numbers, where that leaves one of them with nothing to do.
Result<Cut> cut_of(const ModelFile& model, const std::vector<Device>& devices);

/// The devices of `rooms` as one with room for layers. Fails where they or the model do not allow
/// it.
Result<Room> joined_room(const ModelFile& model, const std::vector<Room>& rooms);

/// The names of those that are joined and have one of these places; none if none are.
std::vector<std::string> joined_names(const std::vector<Room>& rooms,
                                      const std::vector<std::string>& places);

/// A device that failed, and what is known of it.
struct Fault {
    Device device;
    std::string message;
};

/// Who of joined `devices` is to blame for a failure: those that do not keep what they are given;
/// if all do, the one that `message` names; else all.
std::vector<Fault> faults_among(const std::vector<Device>& devices, const std::string& message);

}  // namespace heddle::tool
