// A worker that is none: it takes part in a job as one, and then does what no worker does.
//
//     mpi_liar WAY
//
// late: says nothing for 8 s. version: has another version. The others say who they are and answer
// the first question with: huge, a message of 2 GiB; garbage, bytes that are no message; foreign,
// an answer to something else; nothing, silence; gone, the end of the process. absent: says yes to
// everything, also that it will form a group to add up, and ends when that is to be done.
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

#include "backends/mpi/fabric_mpi.hpp"
#include "backends/mpi/protocol.hpp"

namespace {

using namespace heddle::mpi;
using std::chrono::seconds;

/// Until a message comes, or it is over. What was sent moves on meanwhile.
std::optional<Message> wait_for_message(Fabric& fabric, seconds time) {
    const auto until = Clock::now() + time;
    while (Clock::now() < until) {
        if (auto message = fabric.receive()) return message;
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return std::nullopt;
}

void say_hello(Fabric& fabric, const std::string& version) {
    WorkerFacts facts = own_facts();
    if (!version.empty()) facts.version = version;
    facts.is_chosen = true;
    constexpr std::uint64_t kMemory = std::uint64_t{1} << 34;
    facts.devices = {{"CPU",
                      "made up",
                      "",
                      kMemory,
                      kMemory,
                      {{"CPU", 64, std::uint64_t{1} << 40, false, false, true}}}};
    ByteWriter hello = begin({.kind = Kind::hello});
    put_facts(hello, facts);
    fabric.send(0, seal(std::move(hello)));
}

/// Those that a program asks before workers form a group.
bool asks(Kind kind) {
    return kind == Kind::measure || kind == Kind::new_stream || kind == Kind::allocate ||
           kind == Kind::group;
}

/// Yes to every question, until it is to join a group.
void agree(Fabric& fabric) {
    const auto until = Clock::now() + seconds(20);
    while (const auto message = wait_for_message(fabric, seconds(5))) {
        const auto opened = open(*message);
        if (!opened || opened->header.kind == Kind::join || Clock::now() > until) return;
        const bool is_question = asks(opened->header.kind);
        ByteWriter out = begin({.kind = is_question ? Kind::answer : Kind::beat});
        if (is_question) {
            ByteReader in(opened->body);
            out.put(in.get<std::uint32_t>());
            put_outcome(out, heddle::ok());
        }
        for (int i = 0; i < 2; ++i) out.put(std::uint64_t{0});
        fabric.send(0, seal(std::move(out)));
    }
}

void lie(Fabric& fabric, const std::string& way) {
    if (way == "gone") std::_Exit(3);
    if (way == "nothing") return;
    if (way == "huge") return fabric.send(0, Bytes((std::size_t{1} << 31) - 1));
    if (way == "garbage") return fabric.send(0, Bytes(100, std::byte{0x5A}));
    ByteWriter answer = begin({.kind = Kind::answer});
    answer.put(std::uint32_t{0xFFFFFF});
    fabric.send(0, seal(std::move(answer)));
}

}  // namespace

int main(int argc, char** argv) {
    const std::string way = argc > 1 ? argv[1] : "";
    const auto fabric = join_job(seconds(30));
    if (!fabric) {
        std::fprintf(stderr, "mpi_liar: %s\n", fabric.error().message.c_str());
        return 1;
    }
    Fabric& ranks = **fabric;
    if (way == "late") {
        std::this_thread::sleep_for(seconds(8));
        std::_Exit(0);
    }
    say_hello(ranks, way == "version" ? "0.0.1" : "");
    if (way == "absent") {
        agree(ranks);
        std::_Exit(3);
    }
    while (const auto message = wait_for_message(ranks, seconds(5))) {
        const auto opened = open(*message);
        if (!opened || opened->header.kind == Kind::welcome) continue;
        if (opened->header.kind == Kind::ping) continue;
        if (opened->header.kind != Kind::refused) lie(ranks, way);
        break;
    }
    wait_for_message(ranks, seconds(5));
    std::_Exit(0);  // without a word: MPI would wait for the others
}
