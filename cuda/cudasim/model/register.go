package model

import (
	"fmt"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/cuda/cudasim"
	"github.com/colligo-go/colligo/kernels"
	"github.com/colligo-go/colligo/kernels/ptx"
)

// Register gives a simulated machine the entry points that know no element type.
func Register(s *cudasim.Sim) error {
	return registerMoves(s, 0)
}

// RegisterDeaf is Register, and RegisterReduction of float32 sums, with twins that leave out a wait, so that a test can see it
// missed.
func RegisterDeaf(s *cudasim.Sim, w Wait) error {
	if err := registerMoves(s, w); err != nil {
		return err
	}
	return registerReduction(s, colligo.Float32, colligo.KindSum, w)
}

func registerMoves(s *cudasim.Sim, w Wait) error {
	return image(s, ptx.MoveModule(), map[string]cudasim.Twin{
		ptx.CopyBytes: copyBytes, ptx.FillLines: fillLines, ptx.ExchangePackets: exchangePackets,
		ptx.ExchangeEven: exchangeEven, ptx.BroadcastPackets: broadcastPackets, ptx.ExchangeTiles: exchangeTiles,
		ptx.ExchangeTurns: exchangeTurns, ptx.ExchangeDirect: exchangeDirect, ptx.BroadcastChain: broadcastChain,
		ptx.BroadcastRows: rowChain{w}.broadcast, ptx.BroadcastLines: lineChain{w}.broadcast,
		ptx.MoveFollow: moveFollow{w}.run, ptx.ExchangeMail: mail{w}.exchange,
		ptx.MeetLetters: swap{w}.meet, ptx.SwapLetters: swap{w}.carry,
	})
}

// RegisterReduction adds those of a kind of reduction on an element type.
func RegisterReduction(s *cudasim.Sim, d colligo.DType, k colligo.OpKind) error {
	return registerReduction(s, d, k, 0)
}

func registerReduction(s *cudasim.Sim, d colligo.DType, k colligo.OpKind, w Wait) error {
	of := d.Real() // identical code is one image: its twin must do for all that it is loaded for
	switch k {
	case colligo.KindSum, colligo.KindPremulSum:
		if d != colligo.Bool {
			k = colligo.KindAvg
		}
	case colligo.KindBAnd, colligo.KindBOr, colligo.KindBXor:
		if d != colligo.Bool {
			of = colligo.Uint8
		}
	}
	kernel, err := kernels.Lookup(of, k)
	if err != nil {
		return err
	}
	f := folder{kernel, d.Real().Size(), w}
	twins := map[string]cudasim.Twin{
		ptx.ReduceTwo: f.reduceTwo, ptx.AllReduceOneShot: f.oneShot, ptx.AllReduceTwoShot: f.twoShot,
		ptx.ReduceScatterPackets: f.scatterPackets, ptx.ReduceScatterEven: f.scatterEven,
		ptx.AllReduceTiles: f.tiles, ptx.ReduceScatterTiles: f.scatterTiles,
		ptx.AllReduceRows: f.rows, ptx.AllReduceRowsTwoShot: f.rowsTwoShot, ptx.AllReduceDirect: f.direct,
		ptx.AllReduceLines: f.lines, ptx.AllReduceFollow: f.follow,
	}
	for _, family := range []ptx.Family{ptx.LocalFamily, ptx.PacketFamily, ptx.TileFamily, ptx.RowFamily,
		ptx.LineFamily, ptx.FollowFamily, ptx.DirectFamily} {
		m, err := ptx.ReduceModule(d, k, family)
		if err != nil {
			return err
		}
		if err := image(s, m, twins); err != nil {
			return err
		}
	}
	if !d.Float() && !d.Complex() {
		return nil
	}
	m, err := ptx.UnaryModule(d)
	if err != nil {
		return err
	}
	return image(s, m, map[string]cudasim.Twin{ptx.Scale: f.scale})
}

// image registers a module's entry points. One that has no twin faults when it is launched.
func image(s *cudasim.Sim, m ptx.Module, twins map[string]cudasim.Twin) error {
	ptx, err := m.PTX()
	if err != nil {
		return err
	}
	ahead, err := m.AheadPTX()
	if err != nil {
		return err
	}
	for _, e := range m.Entries() {
		twin := twins[e.Name]
		if twin == nil {
			twin = func(l *cudasim.Launch) { panic(fmt.Sprintf("twins: %s has no twin", l.Name)) }
		}
		s.RegisterImage(ptx, e.Name, e.Args, twin)
		s.RegisterImage(ahead, e.Name, e.Args, twin)
	}
	return nil
}
