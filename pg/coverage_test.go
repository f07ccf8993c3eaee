package pg_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg"
	"github.com/colligo-go/colligo/pg/backend"
	"github.com/colligo-go/colligo/pg/object"
	"github.com/colligo-go/colligo/store"
)

// none is why a name of c10d has no twin.
type none string

// twins is every name that torch.distributed.distributed_c10d exports, and what it is here.
var twins = map[string]any{
	"Backend":                      backend.Register,
	"BackendConfig":                (*pg.Group).BackendConfig,
	"GroupMember":                  (*pg.Group).IsMember,
	"P2POp":                        pg.P2P{},
	"all_gather":                   (*pg.Group).AllGather,
	"all_gather_coalesced":         (*pg.Group).AllGatherCoalesced,
	"all_gather_object":            object.AllGather[int],
	"all_reduce":                   (*pg.Group).AllReduce,
	"all_reduce_coalesced":         (*pg.Group).AllReduceCoalesced,
	"all_to_all":                   (*pg.Group).AllToAll,
	"all_to_all_single":            (*pg.Group).AllToAllSingle,
	"barrier":                      (*pg.Group).BarrierOn,
	"batch_isend_irecv":            pg.BatchIsendIrecv,
	"broadcast":                    (*pg.Group).Broadcast,
	"send_object_list":             object.SendList[int],
	"recv_object_list":             object.RecvList[int],
	"broadcast_object_list":        object.BroadcastList[int],
	"destroy_process_group":        (*pg.Group).Close,
	"gather":                       (*pg.Group).Gather,
	"gather_object":                object.Gather[int],
	"get_backend_config":           (*pg.Group).BackendConfig,
	"get_backend":                  (*pg.Group).Backend,
	"get_rank":                     (*pg.Group).Rank,
	"get_world_size":               (*pg.Group).Size,
	"get_pg_count":                 (*pg.Group).Groups,
	"group":                        none("there is no default group by name: Init returns it"),
	"init_process_group":           pg.Init,
	"irecv":                        (*pg.Group).RecvAsync,
	"is_gloo_available":            backend.Names,
	"is_initialized":               none("whoever has a Group has it from Init"),
	"is_mpi_available":             backend.Names,
	"is_backend_available":         backend.Names,
	"is_nccl_available":            backend.Names,
	"is_torchelastic_launched":     none("Init reads the environment of launchers by itself"),
	"is_ucc_available":             backend.Names,
	"isend":                        (*pg.Group).SendAsync,
	"monitored_barrier":            (*pg.Group).MonitoredBarrier,
	"new_group":                    (*pg.Group).NewGroup,
	"new_subgroups":                (*pg.Group).NewSubgroups,
	"new_subgroups_by_enumeration": (*pg.Group).NewSubgroupsByEnumeration,
	"recv":                         (*pg.Group).Recv,
	"reduce":                       (*pg.Group).Reduce,
	"reduce_scatter":               (*pg.Group).ReduceScatter,
	"scatter":                      (*pg.Group).Scatter,
	"scatter_object_list":          object.ScatterList[int],
	"send":                         (*pg.Group).Send,
	"supports_complex":             colligo.OpKind.Check,
	"AllreduceCoalescedOptions":    none("options are arguments"),
	"AllreduceOptions":             none("options are arguments"),
	"AllToAllOptions":              none("options are arguments"),
	"BarrierOptions":               none("options are arguments"),
	"BroadcastOptions":             none("options are arguments"),
	"GatherOptions":                none("options are arguments"),
	"PrefixStore":                  store.NewPrefix,
	"ProcessGroup":                 (*pg.Group)(nil),
	"ReduceOp":                     colligo.ReduceOp{},
	"ReduceOptions":                none("options are arguments"),
	"ReduceScatterOptions":         none("options are arguments"),
	"ScatterOptions":               none("options are arguments"),
	"Store":                        (*store.Store)(nil),
	"DebugLevel":                   pg.DebugDetail,
	"get_debug_level":              pg.DebugLevelOf,
	"Work":                         (*pg.Work)(nil),
	"default_pg_timeout":           pg.DefaultTimeout,
	"get_group_rank":               (*pg.Group).GroupRank,
	"get_global_rank":              (*pg.Group).GlobalRank,
	"get_process_group_ranks":      (*pg.Group).Ranks,
	"reduce_op":                    none("an older name of ReduceOp"),
	"all_gather_into_tensor":       (*pg.Group).AllGatherIntoTensor,
	"reduce_scatter_tensor":        (*pg.Group).ReduceScatterTensor,
	"get_node_local_rank":          pg.LocalRank,
	"ProcessGroupMPI":              none("there is no MPI"),
	"ProcessGroupNCCL":             backend.Register,
	"ProcessGroupGloo":             backend.CPU,
	"ProcessGroupUCC":              none("there is no UCC"),
	"_ProcessGroupWrapper":         pg.DebugDetail,
}

// exported are the names, from the module's __all__ with those that depend on how PyTorch was built.
const exported = `Backend BackendConfig GroupMember P2POp all_gather all_gather_coalesced all_gather_object all_reduce
	all_reduce_coalesced all_to_all all_to_all_single barrier batch_isend_irecv broadcast send_object_list recv_object_list
	broadcast_object_list destroy_process_group gather gather_object get_backend_config get_backend get_rank get_world_size
	get_pg_count group init_process_group irecv is_gloo_available is_initialized is_mpi_available is_backend_available
	is_nccl_available is_torchelastic_launched is_ucc_available isend monitored_barrier new_group new_subgroups
	new_subgroups_by_enumeration recv reduce reduce_scatter scatter scatter_object_list send supports_complex
	AllreduceCoalescedOptions AllreduceOptions AllToAllOptions BarrierOptions BroadcastOptions GatherOptions PrefixStore
	ProcessGroup ReduceOp ReduceOptions ReduceScatterOptions ScatterOptions Store DebugLevel get_debug_level Work
	default_pg_timeout get_group_rank get_global_rank get_process_group_ranks reduce_op all_gather_into_tensor
	reduce_scatter_tensor get_node_local_rank ProcessGroupMPI ProcessGroupNCCL ProcessGroupGloo ProcessGroupUCC
	_ProcessGroupWrapper`

// TestCoverage finds for every name a twin or a reason.
func TestCoverage(t *testing.T) {
	names := strings.Fields(exported)
	for _, name := range names {
		twin, ok := twins[name]
		require.True(t, ok, name)
		if why, is := twin.(none); is {
			require.NotEmpty(t, why, name)
		}
	}
	require.Len(t, twins, len(names))
}
