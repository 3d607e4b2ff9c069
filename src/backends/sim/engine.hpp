#pragma once

#include <initializer_list>
#include <map>

namespace heddle::sim {

/// From when to when, in virtual seconds.
struct Span {
    double start = 0;
    double end = 0;
};

/// Works on one thing at a time. While one that it was given has to wait for something else, it
/// works on others that were given later and end before that one begins.
class Engine {
public:
    /// When it is free for so long, from `start` on.
    double free_from(double start, double duration) const;
    void occupy(Span span);

    /// Nothing will begin before this time any more.
    void forget_before(double time);

    double end() const { return end_; }  ///< all that it was given is done

private:
    std::map<double, double> busy_;  ///< ends by starts; spans that touch are one
    double end_ = 0;
};

/// When all of them are free for so long, from `start` on.
double free_from(std::initializer_list<const Engine*> engines, double start, double duration);

}  // namespace heddle::sim
