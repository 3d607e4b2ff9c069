#include "registry/registry.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <thread>

#include "registry/test_support.hpp"

namespace heddle {
namespace {

using test::FakeBackend;
using testing::ElementsAre;

std::vector<std::string> device_names(const Registry& registry) {
    std::vector<std::string> names;
    for (const auto& listed : registry.picture()->devices)
        names.emplace_back(name_of(listed.device));
    return names;
}

TEST(Registry, ListsBackendsAndDevicesInTheOrderOfRegistration) {
    FakeBackend first("B", 2), second("A", 1);
    Registry registry;
    EXPECT_TRUE(registry.add(first.handle()));
    EXPECT_TRUE(registry.add(second.handle()));
    EXPECT_THAT(device_names(registry), ElementsAre("B0", "B1", "A0"));
    EXPECT_EQ(registry.picture()->entries[1].registration, second.handle());
}

TEST(Registry, KeepsABackendBehindThoseThatComeLater) {
    FakeBackend first("A", 1), last("B", 2), later("C", 1), changing("D", 2);
    Registry registry;
    registry.keep_last(last.handle());  // which is not known yet
    for (FakeBackend* each : {&first, &last, &changing}) registry.add(each->handle());
    registry.keep_last(last.handle());
    EXPECT_THAT(device_names(registry), ElementsAre("A0", "D0", "D1", "B0", "B1"));
    registry.add(later.handle());
    registry.refresh(changing.handle());
    EXPECT_THAT(device_names(registry), ElementsAre("A0", "C0", "D0", "D1", "B0", "B1"));
    last.add_device("B2");
    registry.refresh(last.handle());
    EXPECT_EQ(device_names(registry).back(), "B2");
    EXPECT_EQ(registry.picture()->entries.back().registration, last.handle());
    EXPECT_TRUE(registry.remove(last.handle()));
    EXPECT_THAT(device_names(registry), ElementsAre("A0", "C0", "D0", "D1"));
}

TEST(Registry, IgnoresWhatItKnowsAlready) {
    FakeBackend backend("B", 2);
    Registry registry;
    registry.add(backend.handle());
    EXPECT_FALSE(registry.add(backend.handle()));
    registry.add(backend.device(1));
    EXPECT_THAT(device_names(registry), ElementsAre("B0", "B1"));
}

TEST(Registry, FindsNamesInAnyCaseButOnlyWhole) {
    FakeBackend backend("Loom", 2);
    Registry registry;
    registry.add(backend.handle());
    EXPECT_EQ(registry.find_registration("lOOM"), backend.handle());
    EXPECT_EQ(registry.find_device("LOOM1"), backend.device(1));
    EXPECT_EQ(registry.find_device("LOOM"), nullptr);
    EXPECT_EQ(registry.find_device("LOOM11"), nullptr);
    EXPECT_EQ(registry.find_registration(""), nullptr);
}

TEST(Registry, GivesTheFirstDeviceOfAKind) {
    FakeBackend accelerators("X", 2, GGML_BACKEND_DEVICE_TYPE_ACCEL);
    FakeBackend cpus("P", 2, GGML_BACKEND_DEVICE_TYPE_CPU);
    Registry registry;
    registry.add(accelerators.handle());
    registry.add(cpus.handle());
    EXPECT_EQ(registry.find_device(GGML_BACKEND_DEVICE_TYPE_CPU), cpus.device(0));
    EXPECT_EQ(registry.find_device(GGML_BACKEND_DEVICE_TYPE_GPU), nullptr);
}

TEST(Registry, RemovingABackendTakesItsDevicesAlong) {
    FakeBackend first("A", 2), second("B", 1);
    Registry registry;
    registry.add(first.handle());
    registry.add(second.handle());
    EXPECT_TRUE(registry.remove(first.handle()));
    EXPECT_THAT(device_names(registry), ElementsAre("B0"));
    EXPECT_EQ(registry.remove(first.handle()).error().code, Errc::not_found);
}

TEST(Registry, RemovingABackendTakesDevicesAlongThatItListedForAnother) {
    FakeBackend parent("Parent", 0), child("Child", 1);
    child.device(0)->reg = parent.handle();  // as a backend of remote devices has it
    Registry registry;
    registry.add(parent.handle());
    registry.add(child.handle());
    EXPECT_TRUE(registry.remove(child.handle()));
    EXPECT_THAT(device_names(registry), ElementsAre());
    registry.add(child.handle());
    EXPECT_TRUE(registry.remove(parent.handle()));
    EXPECT_THAT(device_names(registry), ElementsAre());
}

TEST(Registry, RefreshingFollowsABackendThatChangedItsDevices) {
    FakeBackend changing("C", 2), constant("D", 1);
    Registry registry;
    registry.add(changing.handle());
    registry.add(constant.handle());
    changing.forget_first_device();
    changing.add_device("C2");
    registry.refresh(changing.handle());
    EXPECT_THAT(device_names(registry), ElementsAre("D0", "C1", "C2"));
}

TEST(Registry, LeavesOutDevicesThatAreNull) {
    FakeBackend backend("B", 1);
    backend.handle()->iface.get_device_count = [](ggml_backend_reg_t) -> std::size_t { return 3; };
    Registry registry;
    registry.add(backend.handle());  // devices 1 and 2 are beyond its end
    EXPECT_THAT(device_names(registry), ElementsAre("B0"));
}

TEST(Registry, CanBeReadWhileOthersRegisterAndRemove) {
    FakeBackend constant("Constant", 1);
    Registry registry;
    registry.add(constant.handle());
    std::atomic<bool> stop = false;
    std::atomic<int> wrong = 0;
    std::vector<std::thread> readers;
    for (int i = 0; i < 2; ++i) {
        readers.emplace_back([&] {
            while (!stop) {
                if (registry.find_device("constant0") == nullptr) ++wrong;
                const auto now = registry.picture();
                // A picture is whole: every device's backend is in it.
                for (const auto& listed : now->devices) {
                    bool known = false;
                    for (const auto& entry : now->entries)
                        known |= entry.registration == listed.owner;
                    if (!known) ++wrong;
                }
            }
        });
    }
    std::array<FakeBackend, 2> passing{FakeBackend("W0", 3), FakeBackend("W1", 3)};
    std::vector<std::thread> writers;
    for (FakeBackend& mine : passing) {
        writers.emplace_back([&] {
            for (int round = 0; round < 300; ++round) {
                registry.add(mine.handle());
                if (!registry.remove(mine.handle())) ++wrong;
            }
        });
    }
    for (auto& thread : writers) thread.join();
    stop = true;
    for (auto& thread : readers) thread.join();
    EXPECT_EQ(wrong, 0);
    EXPECT_THAT(device_names(registry), ElementsAre("Constant0"));
}

}  // namespace
}  // namespace heddle
