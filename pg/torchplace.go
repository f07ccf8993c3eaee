package pg

import (
	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg/internal/torch"
)

// rendezvousOf is where a group's ranks meet.
func rendezvousOf(g *Group) *torch.Rendezvous {
	return &torch.Rendezvous{Version: g.config.version(), Store: g.job.Store(), Name: g.name, Rank: g.rank, Job: g.job.ranks}
}

// usualDevice returns where a group works without being told, which is the CPU where it has a backend for that. Else it is the device
// to which it is bound, or that of its first operation.
func usualDevice(g *Group) colligo.Device {
	switch {
	case g.config.Torch == "" || g.devices.selected.Of(colligo.CPU) != "":
		return colligo.Device{}
	case g.config.Device.Kind != colligo.CPU:
		return g.config.Device
	}
	return g.devices.first()
}
