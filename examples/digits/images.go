package main

import (
	"bytes"
	"compress/gzip"
	_ "embed"
	"encoding/csv"
	"fmt"
	"strconv"
)

// The images, see testdata/ATTRIBUTION.md.
//
//go:embed testdata/digits.csv.gz
var compressed []byte

// pixels of an image, and digits to tell apart.
const (
	pixels = 64
	digits = 10
)

// image is one handwritten digit.
type image struct {
	input [pixels + 1]float64 // brightness from 0 to 1, and the constant 1 that takes the bias
	digit int
}

func readImages() ([]image, error) {
	z, err := gzip.NewReader(bytes.NewReader(compressed))
	if err != nil {
		return nil, fmt.Errorf("images: %w", err)
	}
	lines, err := csv.NewReader(z).ReadAll()
	if err != nil {
		return nil, fmt.Errorf("images: %w", err)
	}
	images := make([]image, len(lines))
	for i, line := range lines {
		if err := images[i].read(line); err != nil {
			return nil, fmt.Errorf("images: line %d: %w", i+1, err)
		}
	}
	return images, nil
}

// read takes 64 brightnesses from 0 to 16 and the digit.
func (m *image) read(line []string) error {
	if len(line) != pixels+1 {
		return fmt.Errorf("%d numbers instead of %d", len(line), pixels+1)
	}
	for i, text := range line {
		v, err := strconv.ParseUint(text, 10, 8)
		switch {
		case err != nil:
			return err
		case i == pixels && v >= digits, v > 16:
			return fmt.Errorf("number %d is %d", i+1, v)
		case i == pixels:
			m.digit = int(v)
		default:
			m.input[i] = float64(v) / 16
		}
	}
	m.input[pixels] = 1
	return nil
}

// split takes every fifth image for the test.
func split(images []image) (training, test []image) {
	for i, m := range images {
		if i%5 == 0 {
			test = append(test, m)
		} else {
			training = append(training, m)
		}
	}
	return training, test
}
