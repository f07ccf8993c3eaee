package main

import "math"

// model is the parameters: for each digit a weight per input.
type model [digits][pixels + 1]float64

// probabilities returns how likely an image is each digit: the softmax of the weighted sums.
func (m *model) probabilities(x *image) (p [digits]float64) {
	most := math.Inf(-1)
	for d := range p {
		for i, v := range x.input {
			p[d] += m[d][i] * v
		}
		most = max(most, p[d])
	}
	sum := 0.0
	for d := range p {
		p[d] = math.Exp(p[d] - most) // the largest becomes 1, so nothing overflows
		sum += p[d]
	}
	for d := range p {
		p[d] /= sum
	}
	return p
}

// gradient adds the derivative of the images' cross entropy to grad, and returns the cross entropy.
func (m *model) gradient(images []image, grad *model) (loss float64) {
	for i := range images {
		x := &images[i]
		p := m.probabilities(x)
		loss -= math.Log(p[x.digit])
		p[x.digit]--
		for d := range p {
			for j, v := range x.input {
				grad[d][j] += p[d] * v
			}
		}
	}
	return loss
}

// count returns how many images the model gets right.
func (m *model) count(images []image) (right int) {
	for i := range images {
		p := m.probabilities(&images[i])
		best := 0
		for d := range p {
			if p[d] > p[best] {
				best = d
			}
		}
		if best == images[i].digit {
			right++
		}
	}
	return right
}
