package main

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
)

// The plot's measures in pixels: a panel of bandwidths, one of times beside it, and the legend below both. Texts are large enough
// to be read where a page shows the plot at three quarters of its size.
const (
	plotWidth                   = 1140
	panelLeft, panelWidth       = 90, 460
	panelStride                 = 570
	plotTop, plotBottom, labelY = 54, 374, 420
	legendTop, legendLine       = 452, 22
	tickRoom                    = 52 // that the name of a size needs
)

// colours tell series apart, also for most colour-blind readers (Okabe and Ito's palette, 2008).
var colours = []string{"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000"}

// point is one measured size.
type point struct {
	bytes       int
	busbw, time float64 // GB/s, µs
}

// series is one line of each panel. Peer is the library that colligo is compared with, else empty.
type series struct {
	name, peer string
	points     []point
	peers      []point
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
		if r.Ranks != records[0].Ranks || r.Ranks != records[len(records)-1].Ranks {
			name += fmt.Sprintf(", %d ranks", r.Ranks)
		}
		i, ok := at[name]
		if !ok {
			i = len(all)
			at[name] = i
			all = append(all, series{name: name})
		}
		s := &all[i]
		s.points = append(s.points, point{r.Bytes, r.BusBW, r.TimeUS})
		switch {
		case r.PeerTimeUS != nil:
			s.peer, s.peers = r.Peer, append(s.peers, point{r.Bytes, *r.PeerBusBW, *r.PeerTimeUS})
		case r.NCCLTimeUS != nil:
			s.peer, s.peers = "NCCL", append(s.peers, point{r.Bytes, *r.NCCLBusBW, *r.NCCLTimeUS})
		}
	}
	return all
}

// panel is one diagram over size: its y axis is linear, or logarithmic to base ten.
type panel struct {
	*bytes.Buffer
	left                  int
	firstPower, lastPower int     // of two, of the x axis
	sizes                 []int   // in bytes, in ascending order
	base, step, top       float64 // of the y axis: where it begins, between its lines, where it ends
	log                   bool
	label                 string
	value                 func(p point) float64
}

// newPanels returns the panel of bandwidths and the panel of times, which is nil if nothing took any.
func newPanels(to *bytes.Buffer, all []series) (bandwidth, times *panel) {
	b := panel{Buffer: to, left: panelLeft, firstPower: 62, label: "busbw (GB/s, 1 GB = 10^9 bytes)",
		value: func(p point) float64 { return p.busbw }}
	least, most := math.Inf(1), 0.0
	for _, s := range all {
		for _, p := range append(s.points[:len(s.points):len(s.points)], s.peers...) {
			b.sizes = append(b.sizes, p.bytes)
			b.firstPower = min(b.firstPower, int(math.Floor(math.Log2(float64(p.bytes)))))
			b.lastPower = max(b.lastPower, int(math.Ceil(math.Log2(float64(p.bytes)))))
			b.top = max(b.top, p.busbw)
			if p.time > 0 {
				least, most = min(least, p.time), max(most, p.time)
			}
		}
	}
	slices.Sort(b.sizes)
	b.sizes = slices.Compact(b.sizes)
	b.lastPower = max(b.lastPower, b.firstPower+1)
	b.step = niceStep(b.top)
	b.top = b.step * max(1, math.Ceil(b.top/b.step))
	if most == 0 {
		return &b, nil
	}
	t := b
	t.left, t.log, t.label, t.step = panelLeft+panelStride, true, "time (µs)", 1
	t.value = func(p point) float64 { return math.Log10(p.time) }
	t.base = math.Floor(math.Log10(least))
	t.top = max(t.base+1, math.Ceil(math.Log10(most)))
	return &b, &t
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

func (c *panel) x(power float64) float64 {
	return float64(c.left) + panelWidth*(power-float64(c.firstPower))/float64(c.lastPower-c.firstPower)
}

func (c *panel) y(v float64) float64 {
	return plotBottom - (plotBottom-plotTop)*(v-c.base)/(c.top-c.base)
}

func text(w *bytes.Buffer, x, y float64, anchor, style, format string, args ...any) {
	fmt.Fprintf(w, `<text x="%.1f" y="%.1f" text-anchor="%s"%s>`, x, y, anchor, style)
	_ = xml.EscapeText(w, fmt.Appendf(nil, format, args...)) // a buffer takes everything
	fmt.Fprintln(w, "</text>")
}

// drawPlot writes busbw over size, and time over size on logarithmic axes beside it, as SVG.
func drawPlot(w io.Writer, records []record) error {
	all := seriesOf(records)
	if len(all) == 0 {
		return fmt.Errorf("-plot: nothing to draw: no size above 0 was measured")
	}
	out := &bytes.Buffer{}
	fmt.Fprintf(out, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %[1]d %[2]d" font-family="sans-serif" font-size="15">`+
		"\n<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n", plotWidth, legendTop+len(all)*legendLine)
	text(out, plotWidth/2, 28, "middle", ` font-size="18" font-weight="bold"`, "%s", plotTitle(records))
	bandwidth, times := newPanels(out, all)
	for _, p := range []*panel{bandwidth, times} {
		if p == nil {
			continue
		}
		p.axes()
		for i, s := range all {
			p.series(i, s)
		}
	}
	out.WriteString("</svg>\n")
	_, err := w.Write(out.Bytes())
	return err
}

// plotTitle names what all lines have in common.
func plotTitle(records []record) string {
	r := records[0]
	title := fmt.Sprintf("%s, %s", r.Device, r.Transport)
	if r.Ranks == records[len(records)-1].Ranks {
		title = fmt.Sprintf("%d ranks, %s", r.Ranks, title)
	}
	if r.Peer != "" {
		title += ", colligo and " + r.Peer
	}
	return title
}

func (c *panel) axes() {
	right := c.left + panelWidth
	taken := math.Inf(-1)
	for _, size := range c.sizes {
		x := c.x(math.Log2(float64(size)))
		if x < taken+tickRoom {
			continue
		}
		taken = x
		fmt.Fprintf(c, `<path d="M%.1f %d V%d" stroke="#ddd"/>`+"\n", x, plotTop, plotBottom)
		text(c.Buffer, x, plotBottom+20, "middle", "", "%s", formatSize(size))
	}
	for i := 0; c.base+float64(i)*c.step <= c.top+c.step*1e-4; i++ {
		v := c.base + float64(i)*c.step
		fmt.Fprintf(c, `<path d="M%d %.1f H%d" stroke="#ddd"/>`+"\n", c.left, c.y(v), right)
		if c.log {
			v = math.Pow(10, v)
		}
		text(c.Buffer, float64(c.left-8), c.y(c.base+float64(i)*c.step)+5, "end", "", "%s", strconv.FormatFloat(v, 'f', -1, 32))
	}
	fmt.Fprintf(c, `<path d="M%d %d V%d H%d" fill="none" stroke="#333"/>`+"\n", c.left, plotTop, plotBottom, right)
	text(c.Buffer, float64(c.left+right)/2, labelY, "middle", "", "size (bytes)")
	x, y := float64(c.left-70), float64(plotTop+plotBottom)/2
	text(c.Buffer, x, y, "middle", fmt.Sprintf(` transform="rotate(-90 %.0f %.0f)"`, x, y), "%s", c.label)
}

// series draws a line with its points and its place in the legend. The peer's line has the same colour; it is thin and dotted,
// with empty points. When the colours run out, dashes tell lines apart.
func (c *panel) series(i int, s series) {
	colour, dash := colours[i%len(colours)], ""
	if round := i / len(colours); round > 0 {
		dash = fmt.Sprintf(` stroke-dasharray="%d 3"`, 3*round)
	}
	const thin = ` stroke-width="1.5" stroke-dasharray="2 3"`
	c.line(s.points, colour, ` stroke-width="2"`+dash, colour)
	c.line(s.peers, colour, thin, "#fff")
	if c.log {
		return
	}
	x, y := float64(c.left), float64(legendTop+i*legendLine)
	fmt.Fprintf(c, `<path d="M%.0f %.1f h24" stroke="%s" stroke-width="2"%s/>`+"\n", x, y-5, colour, dash)
	name := s.name
	if s.peer != "" {
		fmt.Fprintf(c, `<path d="M%.0f %.1f h24" stroke="%s"%s/>`+"\n", x+30, y-5, colour, thin)
		name, x = name+"; dotted: "+s.peer, x+30
	}
	text(c.Buffer, x+30, y, "start", "", "%s", name)
}

// line draws one polyline with its points. Times of 0 have no place on a logarithmic axis.
func (c *panel) line(points []point, colour, style, fill string) {
	if len(points) == 0 {
		return
	}
	fmt.Fprintf(c, `<polyline fill="none" stroke="%s"%s points="`, colour, style)
	for _, p := range points {
		if !c.log || p.time > 0 {
			fmt.Fprintf(c, "%.1f,%.1f ", c.x(math.Log2(float64(p.bytes))), c.y(c.value(p)))
		}
	}
	c.WriteString("\"/>\n")
	for _, p := range points {
		if !c.log || p.time > 0 {
			fmt.Fprintf(c, `<circle cx="%.1f" cy="%.1f" r="3" stroke="%s" fill="%s"><title>%s: %.4g GB/s, %.4g µs</title></circle>`+"\n",
				c.x(math.Log2(float64(p.bytes))), c.y(c.value(p)), colour, fill, formatSize(p.bytes), p.busbw, p.time)
		}
	}
}
