// Calls of MPI that fail, or do not come back. They are replaced here, in a job of one rank that
// sends to itself.
#include <gmock/gmock.h>

#include <atomic>

#include "backends/mpi/fabric_mpi.hpp"
#include "backends/mpi/mpi_calls.hpp"

namespace {

/// How often a call is still to fail.
std::atomic<int> failing_sends{0}, failing_receives{0}, failing_tests{0};
/// Whether this process is one that another one started, which is gone.
std::atomic<bool> is_orphan{false};

bool is_to_fail(std::atomic<int>& count) { return count > 0 && count-- > 0; }

}  // namespace

extern "C" {
int MPI_Isend(const void* bytes, int count, MPI_Datatype type, int to, int tag, MPI_Comm ranks,
              MPI_Request* request) {
    if (is_to_fail(failing_sends)) return MPI_ERR_OTHER;
    return PMPI_Isend(bytes, count, type, to, tag, ranks, request);
}

int MPI_Imrecv(void* bytes, int count, MPI_Datatype type, MPI_Message* message,
               MPI_Request* request) {
    const int code = PMPI_Imrecv(bytes, count, type, message, request);
    if (!is_to_fail(failing_receives)) return code;
    PMPI_Wait(request, MPI_STATUS_IGNORE);
    return MPI_ERR_OTHER;
}

int MPI_Test(MPI_Request* request, int* done, MPI_Status* status) {
    if (!is_to_fail(failing_tests)) return PMPI_Test(request, done, status);
    PMPI_Wait(request, status);
    return MPI_ERR_OTHER;
}

int MPI_Comm_get_parent(MPI_Comm* parent) {
    if (!is_orphan) return PMPI_Comm_get_parent(parent);
    *parent = MPI_COMM_SELF;
    return MPI_SUCCESS;
}

int MPI_Intercomm_merge(MPI_Comm, int, MPI_Comm*) {
    std::this_thread::sleep_for(std::chrono::seconds(2));  // longer than a test waits
    return MPI_ERR_OTHER;
}
}

namespace heddle::mpi {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

struct FailingCalls : testing::Test {
    FailingCalls() {
        auto joined = join_job(std::chrono::seconds(20));
        EXPECT_TRUE(joined) << joined.error().message;
        if (joined) fabric = *std::move(joined);
    }
    static void TearDownTestSuite() { MPI_Finalize(); }

    void send(int number) { fabric->send(0, Bytes(1, static_cast<std::byte>(number))); }

    /// The numbers that come, and -1 for a message that has failed.
    std::vector<int> all_that_comes() {
        std::vector<int> numbers;
        for (auto until = Clock::now() + milliseconds(200); Clock::now() < until;) {
            const auto message = fabric->receive();
            if (!message) continue;
            EXPECT_EQ(message->source, 0);
            EXPECT_EQ(message->bytes.size(), message->has_failed ? 0U : 1U);
            numbers.push_back(message->has_failed ? -1 : static_cast<int>(message->bytes[0]));
        }
        return numbers;
    }

    std::unique_ptr<Fabric> fabric;
};

TEST_F(FailingCalls, DoNotLetLaterMessagesPassOneThatIsNotSent) {
    send(1);
    EXPECT_EQ(all_that_comes(), std::vector{1});
    failing_sends = 1;
    send(2);
    send(3);
    EXPECT_EQ(all_that_comes(), std::vector{-1});
    send(4);
    EXPECT_EQ(all_that_comes(), std::vector<int>{});
}

TEST_F(FailingCalls, DoNotLetLaterMessagesPassOneThatIsLostOnItsWay) {
    failing_tests = 1;
    send(1);
    send(2);
    EXPECT_EQ(all_that_comes(), std::vector{-1}) << "whether it came is not known";
}

TEST_F(FailingCalls, DoNotLetLaterMessagesPassOneThatIsNotReceived) {
    for (std::atomic<int>* const failing : {&failing_receives, &failing_tests}) {
        const auto other = join_job(std::chrono::seconds(20));
        ASSERT_TRUE(other);
        for (int i = 0; i < 3; ++i) (*other)->send(0, Bytes(1, std::byte{7}));
        EXPECT_EQ((*other)->unsent(0), 0U) << "else the test fails for a send";
        *failing = 1;
        const auto first = [&] {
            auto message = (*other)->receive();
            while (!message) message = (*other)->receive();
            return message;
        }();
        EXPECT_TRUE(first->has_failed);
        for (int i = 0; i < 100; ++i) EXPECT_FALSE((*other)->receive());
        (*other)->forget(0);
    }
}

TEST_F(FailingCalls, EndASumWithASentence) {
    ASSERT_TRUE(fabric->make_group({.number = 1, .members = {0}}));
    ASSERT_TRUE(fabric->begin_sum(1, {1, 2}));
    failing_tests = 1;
    const auto sum = fabric->take_sum(1);
    ASSERT_FALSE(sum);
    EXPECT_THAT(sum.error().message, HasSubstr("MPI: ranks cannot add up: "));
    fabric->abandon_group(1);
    EXPECT_EQ(fabric->take_sum(1).error().message, "there is no sum in group 1 of ranks");
}

TEST_F(FailingCalls, DoNotKeepAWorkerWhoseProgramIsGone) {
    is_orphan = true;
    const auto began = Clock::now();
    const auto joined = join_job(milliseconds(100));
    is_orphan = false;
    ASSERT_FALSE(joined);
    EXPECT_EQ(joined.error().message,
              "MPI: the program that started this worker does not go on after 0.1 s");
    EXPECT_LT(Clock::now() - began, std::chrono::seconds(1));
    std::this_thread::sleep_for(std::chrono::seconds(3));  // until no thread is inside MPI
}

}  // namespace
}  // namespace heddle::mpi
