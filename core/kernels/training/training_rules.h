// What each optimizer does to one element, as TensorFlow's CPU kernels compute it. A header of its
// own so that the arithmetic can be read without the plumbing; it is also compiled for GPUs, as
// text (gpu/update_functions.h).
//
// A rule says how many variables it updates (the first is the model's), how many scalars it takes,
// in which order, and is made from them once per call. C is the type of the arithmetic.

#ifndef __CUDACC_RTC__
#pragma once
#include <algorithm>
#include <cmath>

#define FORMWORK_RULE_INLINE inline __attribute__((always_inline))
#endif

namespace formwork::training {

/// Attrs that a rule looks at while it runs.
struct Options {
  bool update_slots = true;
};

template <typename C>
struct GradientDescent {  // scalars: alpha
  static constexpr int kVariables = 1;
  static constexpr int kScalars = 1;
  C alpha;
  GradientDescent(const C* s, const Options&) : alpha(s[0]) {}
  FORMWORK_RULE_INLINE void operator()(C& var, C&, C&, C&, C grad) const { var -= grad * alpha; }
};

template <typename C, bool kNesterov>
struct Adam {  // m, v; beta1_power, beta2_power, lr, beta1, beta2, epsilon
  static constexpr int kVariables = 3;
  static constexpr int kScalars = 6;
  C alpha, beta1, beta2, epsilon;
  Adam(const C* s, const Options&)
      : alpha(s[2] * std::sqrt(C(1) - s[1]) / (C(1) - s[0])),
        beta1(s[3]),
        beta2(s[4]),
        epsilon(s[5]) {}
  FORMWORK_RULE_INLINE void operator()(C& var, C& m, C& v, C&, C grad) const {
    m += (grad - m) * (C(1) - beta1);
    v += (grad * grad - v) * (C(1) - beta2);
    if constexpr (kNesterov) {
      var -= ((grad * (C(1) - beta1) + beta1 * m) * alpha) / (std::sqrt(v) + epsilon);
    } else {
      var -= (m * alpha) / (std::sqrt(v) + epsilon);
    }
  }
};

template <typename C, bool kNesterov>
struct Momentum {  // accum; lr, momentum
  static constexpr int kVariables = 2;
  static constexpr int kScalars = 2;
  C lr, momentum;
  Momentum(const C* s, const Options&) : lr(s[0]), momentum(s[1]) {}
  FORMWORK_RULE_INLINE void operator()(C& var, C& accum, C&, C&, C grad) const {
    accum = accum * momentum + grad;
    if constexpr (kNesterov) {
      var -= grad * lr + accum * momentum * lr;
    } else {
      var -= accum * lr;
    }
  }
};

template <typename C, bool kNesterov>
struct KerasMomentum {  // accum; lr, momentum
  static constexpr int kVariables = 2;
  static constexpr int kScalars = 2;
  C lr, momentum;
  KerasMomentum(const C* s, const Options&) : lr(s[0]), momentum(s[1]) {}
  FORMWORK_RULE_INLINE void operator()(C& var, C& accum, C&, C&, C grad) const {
    accum = accum * momentum - grad * lr;
    if constexpr (kNesterov) {
      var += accum * momentum - grad * lr;
    } else {
      var += accum;
    }
  }
};

template <typename C>
struct Adagrad {  // accum; lr
  static constexpr int kVariables = 2;
  static constexpr int kScalars = 1;
  C lr;
  bool update_slots;
  Adagrad(const C* s, const Options& options) : lr(s[0]), update_slots(options.update_slots) {}
  FORMWORK_RULE_INLINE void operator()(C& var, C& accum, C&, C&, C grad) const {
    if (update_slots) accum += grad * grad;
    var -= grad * lr * (C(1) / std::sqrt(accum));
  }
};

template <typename C>
struct AdagradV2 {  // accum; lr, epsilon
  static constexpr int kVariables = 2;
  static constexpr int kScalars = 2;
  C lr, epsilon;
  bool update_slots;
  AdagradV2(const C* s, const Options& options)
      : lr(s[0]), epsilon(s[1]), update_slots(options.update_slots) {}
  FORMWORK_RULE_INLINE void operator()(C& var, C& accum, C&, C&, C grad) const {
    if (update_slots) accum += grad * grad;
    var -= grad * lr / (std::sqrt(accum) + epsilon);
  }
};

template <typename C>
struct Adadelta {  // accum, accum_update; lr, rho, epsilon
  static constexpr int kVariables = 3;
  static constexpr int kScalars = 3;
  C lr, rho, epsilon;
  Adadelta(const C* s, const Options&) : lr(s[0]), rho(s[1]), epsilon(s[2]) {}
  FORMWORK_RULE_INLINE void operator()(C& var, C& accum, C& accum_update, C&, C grad) const {
    accum = accum * rho + grad * grad * (C(1) - rho);
    const C update = std::sqrt(accum_update + epsilon) * (C(1) / std::sqrt(accum + epsilon)) * grad;
    var -= update * lr;
    accum_update = accum_update * rho + update * update * (C(1) - rho);
  }
};

template <typename C>
struct RmsProp {  // ms, mom; lr, rho, momentum, epsilon
  static constexpr int kVariables = 3;
  static constexpr int kScalars = 4;
  C lr, rho, momentum, epsilon;
  RmsProp(const C* s, const Options&) : lr(s[0]), rho(s[1]), momentum(s[2]), epsilon(s[3]) {}
  FORMWORK_RULE_INLINE void operator()(C& var, C& ms, C& mom, C&, C grad) const {
    ms += (grad * grad - ms) * (C(1) - rho);
    mom = mom * momentum + (grad * lr) / std::sqrt(ms + epsilon);
    var -= mom;
  }
};

template <typename C>
struct CenteredRmsProp {  // mg, ms, mom; lr, rho, momentum, epsilon
  static constexpr int kVariables = 4;
  static constexpr int kScalars = 4;
  C lr, rho, momentum, epsilon;
  CenteredRmsProp(const C* s, const Options&)
      : lr(s[0]), rho(s[1]), momentum(s[2]), epsilon(s[3]) {}
  FORMWORK_RULE_INLINE void operator()(C& var, C& mg, C& ms, C& mom, C grad) const {
    ms += (grad * grad - ms) * (C(1) - rho);
    mg += (grad - mg) * (C(1) - rho);
    mom = mom * momentum + (grad * lr) / std::sqrt((ms - mg * mg) + epsilon);
    var -= mom;
  }
};

template <typename C>
struct AdaMax {  // m, v; beta1_power, lr, beta1, beta2, epsilon
  static constexpr int kVariables = 3;
  static constexpr int kScalars = 5;
  C scale, beta1, beta2, epsilon;
  AdaMax(const C* s, const Options&)
      : scale(s[1] / (C(1) - s[0])), beta1(s[2]), beta2(s[3]), epsilon(s[4]) {}
  FORMWORK_RULE_INLINE void operator()(C& var, C& m, C& v, C&, C grad) const {
    m += (grad - m) * (C(1) - beta1);
    v = std::max(beta2 * v, std::abs(grad));
    var -= scale * (m / (v + epsilon));
  }
};

template <typename C, bool kMultiplyByLr>
struct Ftrl {  // accum, linear; lr, l1, l2, lr_power
  static constexpr int kVariables = 3;
  static constexpr int kScalars = 4;
  C lr, l1, l2, lr_power;
  Ftrl(const C* s, const Options&) : lr(s[0]), l1(s[1]), l2(s[2]), lr_power(s[3]) {}
  FORMWORK_RULE_INLINE C Power(C accum) const {
    return lr_power == C(-0.5) ? std::sqrt(accum) : std::pow(accum, -lr_power);
  }
  FORMWORK_RULE_INLINE void operator()(C& var, C& accum, C& linear, C&, C grad) const {
    const C new_accum = accum + grad * grad;
    const C power = Power(new_accum);
    const C growth = power - Power(accum);
    const C threshold = kMultiplyByLr ? l1 * lr : l1;
    linear += kMultiplyByLr ? grad * lr - growth * var : grad - growth / lr * var;
    const C denominator = kMultiplyByLr ? power + C(2) * l2 * lr : power / lr + C(2) * l2;
    const C sign = linear > C(0) ? C(1) : (linear < C(0) ? C(-1) : linear);
    const C shrunk = (threshold * sign - linear) / denominator;
    var = std::abs(linear) > threshold ? shrunk : C(0);
    accum = new_accum;
  }
};

template <typename C>
struct AdagradDa {  // gradient_accumulator, gradient_squared_accumulator; lr, l1, l2, global_step
  static constexpr int kVariables = 3;
  static constexpr int kScalars = 4;
  C lr, l1, l2, step;
  AdagradDa(const C* s, const Options&) : lr(s[0]), l1(s[1]), l2(s[2]), step(s[3]) {}
  FORMWORK_RULE_INLINE void operator()(C& var, C& sum, C& squares, C&, C grad) const {
    sum += grad;
    squares += grad * grad;
    const C shrunk =
        l1 > C(0) ? std::copysign(std::max(std::abs(sum) - l1 * step, C(0)), sum) : sum;
    var = -lr * shrunk / (l2 * step * lr + std::sqrt(squares));
  }
};

template <typename C>
struct ProximalGradientDescent {  // alpha, l1, l2
  static constexpr int kVariables = 1;
  static constexpr int kScalars = 3;
  C alpha, l1, l2;
  ProximalGradientDescent(const C* s, const Options&) : alpha(s[0]), l1(s[1]), l2(s[2]) {}
  FORMWORK_RULE_INLINE void operator()(C& var, C&, C&, C&, C grad) const {
    const C moved = var - grad * alpha;
    const C shrunk =
        l1 > C(0) ? std::copysign(std::max(std::abs(moved) - alpha * l1, C(0)), moved) : moved;
    var = shrunk / (C(1) + l2 * alpha);
  }
};

template <typename C>
struct ProximalAdagrad {  // accum; lr, l1, l2
  static constexpr int kVariables = 2;
  static constexpr int kScalars = 3;
  C lr, l1, l2;
  ProximalAdagrad(const C* s, const Options&) : lr(s[0]), l1(s[1]), l2(s[2]) {}
  FORMWORK_RULE_INLINE void operator()(C& var, C& accum, C&, C&, C grad) const {
    accum += grad * grad;
    const C rate = lr * (C(1) / std::sqrt(accum));
    const C moved = var - grad * rate;
    const C shrunk =
        l1 > C(0) ? std::copysign(std::max(std::abs(moved) - rate * l1, C(0)), moved) : moved;
    var = shrunk / (C(1) + rate * l2);
  }
};

}  // namespace formwork::training
