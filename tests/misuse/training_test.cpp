// One training, or its scheduler, in two threads at once, and in its own callbacks. The first
// thread is held inside by a function of the test, so the second finds it there for certain.

#include <functional>
#include <thread>

#include "tests/misuse/gate.hpp"
#include "tests/misuse/test_support.hpp"
#include "tests/train/test_support.hpp"

namespace heddle::misuse {
namespace {

using test::evaluate;
using testing::HasSubstr;

/// y = x + w; each step subtracts the gradient, 1, from the weight, which begins at 3.
class OneTraining : public Misuse {
protected:
    OneTraining() {
        ggml_opt_params params = model.params(GGML_OPT_OPTIMIZER_TYPE_SGD);
        params.get_opt_pars = [](void* data) {
            static_cast<OneTraining*>(data)->in_step();
            return test::plain_steps(nullptr);
        };
        params.get_opt_pars_ud = this;
        training.reset(ggml_opt_init(params));
        EXPECT_NE(training, nullptr) << heddle_last_error();
    }

    /// What the call left as the last failure.
    template <class Call>
    static std::string told(const Call& call) {
        heddle_clear_error();
        call();
        return heddle_last_error();
    }

    std::function<void()> in_step = [] {};  ///< called in the middle of every evaluation
    test::Counting model{"CPU"};
    test::TrainingPtr training;
};

TEST_F(OneTraining, IsRefusedToASecondThreadByAllThatChangesIt) {
    Gate gate;
    in_step = [&] { gate.pass(); };
    std::thread thread([&] { evaluate(model, training.get(), true, 0); });
    gate.wait_for_arrival();
    ggml_opt_context_t mine = training.get();
    const auto is_refused =
        testing::Eq("training: it is in use in another thread; only one at a time may use it");
    EXPECT_THAT(told([&] { ggml_opt_alloc(mine, true); }), is_refused);
    EXPECT_THAT(told([&] { ggml_opt_eval(mine, nullptr); }), is_refused);
    EXPECT_THAT(told([&] { ggml_opt_reset(mine, true); }), is_refused);
    EXPECT_THAT(told([&] { ggml_opt_dataset_shuffle(mine, model.dataset.get(), -1); }), is_refused);
    EXPECT_THAT(told([&] {
                    ggml_opt_epoch(mine, model.dataset.get(), nullptr, nullptr, -1, nullptr,
                                   nullptr);
                }),
                is_refused);
    EXPECT_THAT(told([&] {
                    ggml_opt_prepare_alloc(mine, model.rig.compute(), ggml_new_graph(context.get()),
                                           model.inputs, model.outputs);
                }),
                is_refused);
    EXPECT_EQ(told([&] {
                  EXPECT_EQ(ggml_opt_inputs(mine), model.inputs);
                  EXPECT_TRUE(ggml_opt_static_graphs(mine));
              }),
              "")
        << "questions";
    gate.open();
    thread.join();
    EXPECT_EQ(model.weight_now(), 2) << "one step, that of the first thread";
    in_step = [] {};
    EXPECT_EQ(told([&] { evaluate(model, mine, true, 1); }), "") << "it is free";
    EXPECT_EQ(model.weight_now(), 1);
}

TEST_F(OneTraining, HoldsItsSchedulerWhileItEvaluates) {
    Gate gate;
    in_step = [&] { gate.pass(); };
    std::thread thread([&] { evaluate(model, training.get(), true, 0); });
    gate.wait_for_arrival();
    EXPECT_THAT(told([&] { ggml_backend_sched_reset(model.rig.scheduler()); }),
                HasSubstr("in use in another thread"));
    const test::TrainingPtr other(ggml_opt_init(model.params(GGML_OPT_OPTIMIZER_TYPE_SGD)));
    EXPECT_EQ(told([&] { ggml_opt_alloc(other.get(), true); }),
              "training: the scheduler: it is in use in another thread; only one at a time may use "
              "it");
    gate.open();
    thread.join();
    EXPECT_EQ(model.weight_now(), 2);
    EXPECT_EQ(told([&] { evaluate(model, other.get(), true, 0); }), "") << "it is free";
}

TEST_F(OneTraining, IsNotEvaluatedAgainByTheFunctionThatSteersItsStep) {
    std::string said;
    in_step = [&] { said = told([&] { ggml_opt_eval(training.get(), nullptr); }); };
    evaluate(model, training.get(), true, 0);
    EXPECT_EQ(said,
              "training: the scheduler: it is in use further up in this thread; only one at a time "
              "may use it");
    EXPECT_EQ(model.weight_now(), 2);
}

TEST_F(OneTraining, MayBeUsedByTheCallbackOfItsEpochAndByOneThreadAfterTheOther) {
    static int calls;
    calls = 0;
    const auto look = [](bool, ggml_opt_context_t mine, ggml_opt_dataset_t, ggml_opt_result_t,
                         int64_t, int64_t, int64_t) {
        ggml_opt_alloc(mine, false);
        ggml_opt_eval(mine, nullptr);
        ++calls;
    };
    EXPECT_EQ(told([&] {
                  ggml_opt_epoch(training.get(), model.dataset.get(), nullptr, nullptr, -1, look,
                                 nullptr);
              }),
              "");
    EXPECT_EQ(calls, test::kPoints);
    EXPECT_EQ(model.weight_now(), 3 - float{test::kPoints});
    std::string said;
    std::thread([&] { said = told([&] { evaluate(model, training.get(), true, 0); }); }).join();
    EXPECT_EQ(said, "");
}

}  // namespace
}  // namespace heddle::misuse
