package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo/internal/launch"
)

// TestMain runs the tests, or, as a rank that they start, trains and prints the report and all parameters.
func TestMain(m *testing.M) {
	if _, child := os.LookupEnv("RANK"); !child {
		os.Exit(m.Run())
	}
	trained, err := run(context.Background(), os.Stdout)
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	for _, p := range vector(trained) {
		fmt.Printf("%s %x\n", parameterLine, p) // exact
	}
	os.Exit(0)
}

const parameterLine = "parameter"

// trainOn starts real processes, and returns each one's parameters and rank 0's report.
func trainOn(t *testing.T, ranks int) (all [][]float64, report string) {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	outputs := make([]launch.Tail, ranks)
	job := launch.Job{Program: self, Ranks: ranks, Env: os.Environ(), Output: func(rank int) (stdout, stderr io.Writer) {
		outputs[rank].Limit = 1 << 20
		return &outputs[rank], &outputs[rank]
	}}
	err = job.Run(t.Context())
	for rank := range outputs {
		require.NoError(t, err, outputs[rank].String())
		text, found := outputs[rank].String(), []float64(nil)
		for line := range strings.Lines(text) {
			if number, ok := strings.CutPrefix(line, parameterLine+" "); ok {
				v, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
				require.NoError(t, err)
				found = append(found, v)
			} else {
				report += line
			}
		}
		require.Len(t, found, parameters, "rank %d: %s", rank, text)
		all = append(all, found)
	}
	return all, report
}

// TestRanksAgree trains with one, three and four processes.
func TestRanksAgree(t *testing.T) {
	alone, report := trainOn(t, 1)
	require.GreaterOrEqual(t, accuracy(t, report), 93.0)
	for _, ranks := range []int{3, 4} {
		all, report := trainOn(t, ranks)
		require.Contains(t, report, fmt.Sprintf("%d ranks", ranks))
		require.GreaterOrEqual(t, accuracy(t, report), 93.0)
		for rank, p := range all {
			for i := range p {
				require.Equal(t, math.Float64bits(all[0][i]), math.Float64bits(p[i]), "%d ranks: rank %d, parameter %d", ranks, rank, i)
				require.InDelta(t, alone[0][i], p[i], 1e-6, "%d ranks: parameter %d", ranks, i)
			}
		}
	}
}

func accuracy(t *testing.T, report string) (percent float64) {
	t.Helper()
	_, text, found := strings.Cut(report, "test accuracy ")
	require.True(t, found, report)
	_, err := fmt.Sscanf(text, "%f", &percent)
	require.NoError(t, err)
	return percent
}

func TestImages(t *testing.T) {
	images, err := readImages()
	require.NoError(t, err)
	require.Len(t, images, 1797)
	var of [digits]int
	for i := range images {
		of[images[i].digit]++
	}
	require.Equal(t, [digits]int{178, 182, 177, 183, 181, 182, 181, 179, 174, 180}, of)
	training, test := split(images)
	require.Equal(t, []int{1437, 360}, []int{len(training), len(test)})
	require.Error(t, new(image).read(make([]string, 65)))
	require.Error(t, new(image).read(make([]string, 3)))
}

// TestGradient holds the gradient against differences of the loss.
func TestGradient(t *testing.T) {
	images, err := readImages()
	require.NoError(t, err)
	var m, grad, unused model
	for i := range vector(&m) {
		vector(&m)[i] = math.Sin(float64(i)) / 10
	}
	m.gradient(images[:20], &grad)
	const h = 1e-6
	for _, i := range []int{0, 10, 64, 300, 649} {
		up, down := m, m
		vector(&up)[i] += h
		vector(&down)[i] -= h
		slope := (up.gradient(images[:20], &unused) - down.gradient(images[:20], &unused)) / (2 * h)
		require.InDelta(t, slope, vector(&grad)[i], 1e-5, "parameter %d", i)
	}
}
