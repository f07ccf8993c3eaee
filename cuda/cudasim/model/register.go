package model

import (
	"fmt"
	"sync"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/cuda/cudasim"
	"github.com/colligo-go/colligo/kernels"
	"github.com/colligo-go/colligo/kernels/ptx"
)

// Register gives a simulated machine the entry points that know no element type.
func Register(s *cudasim.Sim) error {
	return registerMoves(s, 0)
}

// RegisterWithout registers model kernels that leave out a wait, those of float32 sums among them. A test then sees that the
// simulator notices.
func RegisterWithout(s *cudasim.Sim, w Wait) error {
	if err := registerMoves(s, w); err != nil {
		return err
	}
	return registerReduction(s, colligo.Float32, colligo.KindSum, w)
}

func registerMoves(s *cudasim.Sim, w Wait) error {
	return image(s, ptx.MoveModule(), map[string]cudasim.Model{
		ptx.CopyBytes: copyBytes, ptx.FillLines: fillLines, ptx.ExchangeLL: exchangeLL,
		ptx.ExchangeLLEven: exchangeLLEven, ptx.BroadcastLL: broadcastLL, ptx.ExchangeTiles: exchangeTiles,
		ptx.ExchangeRotation: exchangeRotation, ptx.ExchangeDirect: exchangeDirect, ptx.BroadcastChain: broadcastChain,
		ptx.BroadcastLL128: ll128Chain{w}.broadcast, ptx.BroadcastSentinel: sentinelChain{w}.broadcast,
		ptx.MoveFused: moveFused{w}.run, ptx.ExchangeEager: eager{w}.exchange,
		ptx.Rendezvous: sendRecv{w}.rendezvous, ptx.SendRecv: sendRecv{w}.carry,
	})
}

// RegisterReduction adds the entry points of a kind of reduction on an element type.
func RegisterReduction(s *cudasim.Sim, d colligo.DType, k colligo.OpKind) error {
	return registerReduction(s, d, k, 0)
}

func registerReduction(s *cudasim.Sim, d colligo.DType, k colligo.OpKind, w Wait) error {
	of := d.Real() // identical code is one image, so its model kernel must serve every type that loads it
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
	if _, err := kernels.Lookup(of, k); err != nil {
		return err
	}
	f := folder{of.Real(), k, w}
	models := map[string]cudasim.Model{
		ptx.ReduceTwo: f.reduceTwo, ptx.AllReduceLL: f.ll, ptx.AllReduceLLTwoShot: f.llTwoShot,
		ptx.ReduceScatterLL: f.scatterLL, ptx.ReduceScatterLLEven: f.scatterLLEven,
		ptx.AllReduceTiles: f.tiles, ptx.ReduceScatterTiles: f.scatterTiles,
		ptx.AllReduceLL128: f.ll128, ptx.AllReduceLL128TwoShot: f.ll128TwoShot, ptx.AllReduceDirect: f.direct,
		ptx.AllReduceSentinel: f.sentinel, ptx.AllReduceFused: f.fused,
	}
	for _, family := range []ptx.Family{ptx.LocalFamily, ptx.LLFamily, ptx.TileFamily, ptx.LL128Family,
		ptx.SentinelFamily, ptx.FusedFamily, ptx.DirectFamily} {
		m, err := ptx.ReduceModule(d, k, family)
		if err != nil {
			return err
		}
		if err := image(s, m, models); err != nil {
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
	return image(s, m, map[string]cudasim.Model{ptx.Scale: f.scale})
}

// image registers a module's entry points. An entry point without a model kernel faults when it is launched.
func image(s *cudasim.Sim, m ptx.Module, models map[string]cudasim.Model) error {
	var entries []cudasim.EntryPoint
	for _, e := range m.Entries() {
		model := models[e.Name]
		if model == nil {
			model = func(l *cudasim.Launch) { panic(fmt.Sprintf("model: %s has no model kernel", l.Name)) }
		}
		entries = append(entries, cudasim.EntryPoint{Name: e.Name, Args: e.Args, Model: model})
	}
	texts, err := textsOf(m)
	for _, text := range texts {
		s.RegisterImage(text, entries...)
	}
	return err
}

// texts has the texts of each module that was registered, by name: every test registers the same few.
var texts sync.Map

// textsOf returns a module's texts, which are shared and must not be changed.
func textsOf(m ptx.Module) ([][]byte, error) {
	if all, ok := texts.Load(m.Name()); ok {
		return all.([][]byte), nil
	}
	own, err := m.PTX()
	if err != nil {
		return nil, err
	}
	ahead, err := m.AheadPTX()
	if err != nil {
		return nil, err
	}
	all := [][]byte{own, ahead}
	texts.Store(m.Name(), all)
	return all, nil
}
