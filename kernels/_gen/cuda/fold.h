// Folds: the operations of a kind of reduction on the elements of one type. They are open, which takes the first source's
// element, fold, which adds the next source's, and close, which returns the result. Lines folds 16 bytes at a time.
//
// Averages. The average of floats over n ranks is the sum of their elements, each multiplied by a weight first: 1/n, rounded to the
// element type. So it does not overflow where the elements fit. The average of integers divides the whole sum.
#pragma once
#include "elements.h"

template <class E> struct Sum {
	using Element = E;
	using State = typename E::Number;
	static constexpr bool weighs = E::isFloat, divides = !E::isFloat;
	DEVICE State open(typename E::Raw r) { return E::decode(r); }
	DEVICE State fold(State s, typename E::Raw r) { return s + E::decode(r); }
	DEVICE State divide(State s, u32 by) { return E::divide(s, by); }
	DEVICE typename E::Raw close(State s) { return E::encode(s); }
	DEVICE u32 closePair(State lo, State hi)
		requires requires { E::encodePair(lo, hi); }
	{
		return E::encodePair(lo, hi);
	}
};

template <class E> struct Prod : Sum<E> {
	using typename Sum<E>::State;
	static constexpr bool weighs = false, divides = false;
	DEVICE State fold(State s, typename E::Raw r) { return s * E::decode(r); }
};

// Extreme compares bits. Floats are sign and magnitude, so flipping the magnitude of negative floats puts them in order, with -0 below
// +0. If any source is NaN, the result is one positive quiet NaN.
template <class E, bool least> struct Extreme {
	using Element = E;
	using Raw = typename E::Raw;
	using State = Raw;
	using Ordered = typename E::Ordered;
	static constexpr bool weighs = false, divides = false;
	DEVICE Ordered order(Raw r) {
		Ordered o = (Ordered)r;
		if constexpr (E::isFloat) o ^= (Ordered)(o >> (8 * sizeof(o) - 1)) & magnitude;
		return o;
	}
	DEVICE State open(Raw r) { return r; }
	DEVICE State fold(State s, Raw r) {
		State m = (least ? order(r) < order(s) : order(r) > order(s)) ? r : s;
		if constexpr (E::isFloat)
			if ((s & magnitude) > E::infinity || (r & magnitude) > E::infinity) m = E::nan;
		return m;
	}
	DEVICE Raw close(State s) { return s; }
	static constexpr Raw magnitude = (Raw)((Raw)~(Raw)0 >> 1);
};
template <class E> struct Min : Extreme<E, true> {};
template <class E> struct Max : Extreme<E, false> {};

// The bitwise kinds work on words of any width.
template <class E> struct BAnd : Sum<E> {
	static constexpr bool weighs = false, divides = false;
	DEVICE typename E::Raw fold(typename E::Raw s, typename E::Raw r) { return s & r; }
};
template <class E> struct BOr : BAnd<E> {
	DEVICE typename E::Raw fold(typename E::Raw s, typename E::Raw r) { return s | r; }
};
template <class E> struct BXor : BAnd<E> {
	DEVICE typename E::Raw fold(typename E::Raw s, typename E::Raw r) { return s ^ r; }
};

// truth makes each byte that is not 0 a 1.
template <class T> DEVICE T truth(T w) {
	constexpr T low = (T)0x7f7f7f7f, one = (T)0x01010101;
	return (T)((T)((T)((w & low) + low) | w) >> 7) & one;
}

// Bools are bytes: and is their product and minimum, or their sum and maximum.
template <class E> struct BoolAnd : BAnd<E> {
	DEVICE typename E::Raw open(typename E::Raw r) { return truth(r); }
	DEVICE typename E::Raw fold(typename E::Raw s, typename E::Raw r) { return s & truth(r); }
};
template <class E> struct BoolOr : BoolAnd<E> {
	DEVICE typename E::Raw fold(typename E::Raw s, typename E::Raw r) { return s | truth(r); }
};
template <class E> struct BoolXor : BoolAnd<E> {
	DEVICE typename E::Raw fold(typename E::Raw s, typename E::Raw r) { return s ^ truth(r); }
};

// inOrder returns the line of rank q, which the compiler knows: mine, or a peer's. v returns the peers' lines in rank order.
template <class Of> DEVICE Line inOrder(u32 q, u32 rank, Line mine, const Of &v) {
	Line before = q == 0 ? mine : v(q - 1), here = v(q);
#pragma unroll
	for (int i = 0; i < 4; i++) here.w[i] = q < rank ? here.w[i] : q == rank ? mine.w[i] : before.w[i];
	return here;
}

// element returns the i-th element of a line. Until then the line stays in whole words, which take half the registers.
template <class Raw> DEVICE Raw element(const Line &v, int i) {
	constexpr int count = 4 / sizeof(Raw); // of a word
	if constexpr (sizeof(Raw) == 8) return v.w[2 * i] | (Raw)v.w[2 * i + 1] << 32;
	else if constexpr (sizeof(Raw) == 4) return v.w[i];
	else return (Raw)(v.w[i / count] >> 8 * sizeof(Raw) * (i % count));
}

// A weight multiplies an element that comes from a rank's input. Sums of several ranks have the weight 1.
template <class F> using Weight = typename F::Element::Number;

// reciprocal returns 1/n, rounded to nearest, of a number of ranks n. A division has code for extreme operands, which costs time in
// every reduction, averages or not: bench -graph 20 shows it. Instead the device's approximation is refined. Each step squares its
// error, and the last step rounds right. Package ptx tests that for n up to 65,536. It takes every approximation of a float that the
// device may give, and some of a double on both sides.
DEVICE float reciprocal(float n) {
	float r;
	asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(n)); // at most 1 unit in the last place off
	return __builtin_fmaf(__builtin_fmaf(-n, r, 1), r, r);
}
DEVICE double reciprocal(double n) {
	double r;
	asm("rcp.approx.ftz.f64 %0, %1;" : "=d"(r) : "d"(n)); // some 20 bits are right
#pragma unroll
	for (int i = 0; i < 3; i++) r = __builtin_fma(__builtin_fma(-n, r, 1), r, r);
	return r;
}

// weightOf returns the weight of an average over divisor ranks, 1 if divisor is at most 1.
template <class F> DEVICE Weight<F> weightOf(u32 divisor) {
	using E = typename F::Element;
	if constexpr (F::weighs)
		if (divisor > 1) return E::decode(E::encode(reciprocal((Weight<F>)divisor)));
	return 1;
}

template <class F> DEVICE typename F::State opened(typename F::Element::Raw r, Weight<F> by) {
	if constexpr (F::weighs) return F::open(r) * by;
	else return F::open(r);
}

template <class F> DEVICE typename F::State folded(typename F::State s, typename F::Element::Raw r, Weight<F> by) {
	if constexpr (F::weighs) return s + F::open(r) * by;
	else return F::fold(s, r);
}

// Lines is the state of a line being folded by F.
template <class F> struct Lines {
	using Raw = typename F::Element::Raw;
	static constexpr int count = 16 / sizeof(Raw);
	struct Elements {
		Raw e[count];
	};
	typename F::State state[count];

	// clear prepares weighted sums for folds without open: -0 plus any number is that number. So the first source needs no code of its
	// own, which would take registers.
	__attribute__((device, always_inline)) void clear() {
#pragma unroll
		for (int i = 0; i < count; i++) state[i] = (typename F::State)-0.0;
	}
	__attribute__((device, always_inline)) void open(Line v, Weight<F> by) {
#pragma unroll
		for (int i = 0; i < count; i++) state[i] = opened<F>(element<Raw>(v, i), by);
	}
	__attribute__((device, always_inline)) void fold(Line v, Weight<F> by) {
#pragma unroll
		for (int i = 0; i < count; i++) state[i] = folded<F>(state[i], element<Raw>(v, i), by);
	}
	__attribute__((device, always_inline)) Line close(u32 divisor) {
		if constexpr (F::divides)
			if (divisor > 1) {
#pragma unroll
				for (int i = 0; i < count; i++) state[i] = F::divide(state[i], divisor);
			}
		if constexpr (requires { F::closePair(state[0], state[1]); }) {
			Line out;
#pragma unroll
			for (int i = 0; i < 4; i++) out.w[i] = F::closePair(state[2 * i], state[2 * i + 1]);
			return out;
		} else {
			Elements out;
#pragma unroll
			for (int i = 0; i < count; i++) out.e[i] = F::close(state[i]);
			return bits<Line>(out);
		}
	}
};

// The module is of kind OP on elements ELEMENT. Bitwise kinds and bools fold lines as words.
#ifndef WORD
#define WORD ELEMENT
#endif
using One = OP<ELEMENT>;
using Whole = Lines<OP<WORD>>;
using WeightOfLine = Weight<OP<WORD>>;
constexpr bool weighs = OP<WORD>::weighs;
DEVICE WeightOfLine weightOfLines(u32 divisor) { return weightOf<OP<WORD>>(divisor); }
constexpr bool unrolled = WORD::unrolled;
