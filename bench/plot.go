package main

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"io"
	"math"
)

// The plot's measures in pixels.
const (
	plotWidth, plotHeight       = 960, 560
	plotLeft, plotRight         = 80, 940
	plotTop, plotBottom         = 50, 490
	legendLine, legendX, labelY = 18, 96, 535
)

// colours tell series apart, also for most colour-blind readers (Okabe and Ito's palette, 2008).
var colours = []string{"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000"}

// series is one line of the plot.
type series struct {
	name   string
	points []record
}

// seriesOf sorts records into lines. Records without bytes have no place on a logarithmic axis.
func seriesOf(records []record) []series {
	var all []series
	at := map[string]int{}
	for _, r := range records {
		if r.Bytes == 0 {
			continue
		}
		name := r.Collective + " " + r.DType
		if r.Op != "none" {
			name += " " + r.Op
		}
		i, ok := at[name]
		if !ok {
			i = len(all)
			at[name] = i
			all = append(all, series{name: name})
		}
		all[i].points = append(all[i].points, r)
	}
	return all
}

// canvas maps bytes and GB/s to pixels.
type canvas struct {
	bytes.Buffer
	firstPower, lastPower int     // of two, of the x axis
	step, top             float64 // GB/s between the lines of the y axis, and at its end
}

func newCanvas(all []series) *canvas {
	c := &canvas{firstPower: 62}
	for _, s := range all {
		for _, p := range s.points {
			c.firstPower = min(c.firstPower, int(math.Floor(math.Log2(float64(p.Bytes)))))
			c.lastPower = max(c.lastPower, int(math.Ceil(math.Log2(float64(p.Bytes)))))
			c.top = max(c.top, p.BusBW)
		}
	}
	c.lastPower = max(c.lastPower, c.firstPower+1)
	c.step = niceStep(c.top)
	c.top = c.step * max(1, math.Ceil(c.top/c.step))
	return c
}

// niceStep returns 1, 2 or 5 times a power of ten, so that about five steps reach top.
func niceStep(top float64) float64 {
	if top <= 0 {
		return 1
	}
	power := math.Pow(10, math.Floor(math.Log10(top/5)))
	for _, m := range []float64{1, 2, 5} {
		if top <= 6*m*power {
			return m * power
		}
	}
	return 10 * power
}

func (c *canvas) x(power float64) float64 {
	return plotLeft + (plotRight-plotLeft)*(power-float64(c.firstPower))/float64(c.lastPower-c.firstPower)
}

func (c *canvas) y(gbps float64) float64 { return plotBottom - (plotBottom-plotTop)*gbps/c.top }

func (c *canvas) text(x, y float64, anchor, style, format string, args ...any) {
	fmt.Fprintf(c, `<text x="%.1f" y="%.1f" text-anchor="%s"%s>`, x, y, anchor, style)
	_ = xml.EscapeText(c, fmt.Appendf(nil, format, args...)) // a buffer takes everything
	fmt.Fprintln(c, "</text>")
}

// drawPlot writes busbw over size as SVG.
func drawPlot(w io.Writer, records []record) error {
	all := seriesOf(records)
	if len(all) == 0 {
		return fmt.Errorf("-plot: nothing to draw: no size above 0 was measured")
	}
	c := newCanvas(all)
	fmt.Fprintf(c, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %[1]d %[2]d" font-family="sans-serif" font-size="12">`+
		"\n<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n", plotWidth, plotHeight)
	r := all[0].points[0]
	c.text(plotWidth/2, 28, "middle", ` font-size="16"`, "bus bandwidth, %d ranks, %s, %s", r.Ranks, r.Device, r.Transport)
	c.axes()
	for i, s := range all {
		c.series(i, s)
	}
	c.WriteString("</svg>\n")
	_, err := w.Write(c.Bytes())
	return err
}

func (c *canvas) axes() {
	stride := max(1, (c.lastPower-c.firstPower+11)/12)
	for p := c.firstPower; p <= c.lastPower; p += stride {
		fmt.Fprintf(c, `<path d="M%.1f %d V%d" stroke="#ddd"/>`+"\n", c.x(float64(p)), plotTop, plotBottom)
		c.text(c.x(float64(p)), plotBottom+18, "middle", "", "%s", formatSize(1<<p))
	}
	for i := 0; float64(i)*c.step <= c.top*1.0001; i++ {
		y := c.y(float64(i) * c.step)
		fmt.Fprintf(c, `<path d="M%d %.1f H%d" stroke="#ddd"/>`+"\n", plotLeft, y, plotRight)
		c.text(plotLeft-8, y+4, "end", "", "%.4g", float64(i)*c.step)
	}
	fmt.Fprintf(c, `<path d="M%d %d V%d H%d" fill="none" stroke="#333"/>`+"\n", plotLeft, plotTop, plotBottom, plotRight)
	c.text((plotLeft+plotRight)/2, labelY, "middle", "", "size (bytes)")
	c.text(24, (plotTop+plotBottom)/2, "middle", fmt.Sprintf(` transform="rotate(-90 24 %d)"`, (plotTop+plotBottom)/2),
		"busbw (GB/s, 1 GB = 10^9 bytes)")
}

// series draws a line with its points and its place in the legend. When the colours run out, dashes tell lines apart.
func (c *canvas) series(i int, s series) {
	colour, dash := colours[i%len(colours)], ""
	if round := i / len(colours); round > 0 {
		dash = fmt.Sprintf(` stroke-dasharray="%d 3"`, 3*round)
	}
	fmt.Fprintf(c, `<polyline fill="none" stroke="%s" stroke-width="2"%s points="`, colour, dash)
	for _, p := range s.points {
		fmt.Fprintf(c, "%.1f,%.1f ", c.x(math.Log2(float64(p.Bytes))), c.y(p.BusBW))
	}
	c.WriteString("\"/>\n")
	for _, p := range s.points {
		fmt.Fprintf(c, `<circle cx="%.1f" cy="%.1f" r="3" fill="%s"><title>%s: %.4g GB/s, %.4g µs</title></circle>`+"\n",
			c.x(math.Log2(float64(p.Bytes))), c.y(p.BusBW), colour, formatSize(p.Bytes), p.BusBW, p.TimeUS)
	}
	y := float64(plotTop + 16 + i*legendLine)
	fmt.Fprintf(c, `<path d="M%d %.1f h24" stroke="%s" stroke-width="2"%s/>`+"\n", legendX, y-4, colour, dash)
	c.text(legendX+30, y, "start", "", "%s", s.name)
}
