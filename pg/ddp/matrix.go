package ddp

import "math"

// Matrices are row-major.

func add(to, values []float64) {
	for i, v := range values {
		to[i] += v
	}
}

// multiply returns a·b, a of n × m and b of m × r.
func multiply(a, b []float64, n, m, r int) []float64 {
	out := make([]float64, n*r)
	for i := range n {
		row := out[i*r : (i+1)*r]
		for j, v := range a[i*m : (i+1)*m] {
			for k := range row {
				row[k] += v * b[j*r+k]
			}
		}
	}
	return out
}

// multiplyTransposed returns aᵀ·b, a of n × m and b of n × r.
func multiplyTransposed(a, b []float64, n, m, r int) []float64 {
	out := make([]float64, m*r)
	for i := range n {
		for j, v := range a[i*m : (i+1)*m] {
			row := out[j*r : (j+1)*r]
			for k := range row {
				row[k] += v * b[i*r+k]
			}
		}
	}
	return out
}

// product returns p·qᵀ, p of n × r and q of m × r.
func product(p, q []float64, n, m, r int) []float64 {
	out := make([]float64, n*m)
	for i := range n {
		for j := range m {
			s := 0.0
			for k := range r {
				s += p[i*r+k] * q[j*r+k]
			}
			out[i*m+j] = s
		}
	}
	return out
}

// orthogonalize makes the columns of a, of n × r, orthonormal, one after the other (Gram-Schmidt). A column that depends
// on those before it becomes zeros.
func orthogonalize(a []float64, n, r int) {
	for k := range r {
		before := norm(a, n, r, k)
		for l := range k {
			dot := 0.0
			for i := range n {
				dot += a[i*r+k] * a[i*r+l]
			}
			for i := range n {
				a[i*r+k] -= dot * a[i*r+l]
			}
		}
		scale := 0.0
		if length := norm(a, n, r, k); length > 1e-12*before {
			scale = 1 / length
		}
		for i := range n {
			a[i*r+k] *= scale
		}
	}
}

// norm returns the length of column k.
func norm(a []float64, n, r, k int) float64 {
	s := 0.0
	for i := range n {
		s += a[i*r+k] * a[i*r+k]
	}
	return math.Sqrt(s)
}
