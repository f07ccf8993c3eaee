// Package launch starts one program once for each rank of a group on this machine, with the environment that torchrun sets.
// When one process fails, it ends all. It serves bench and cmd/colligo.
//
// Invariants:
//
//  1. Run returns when every process it started has ended, whatever happened.
//  2. The first process that fails is the one reported; what fails after it is taken for a consequence.
//  3. When one has failed the others have the time to settle: ranks hear of it by themselves and say what they know. Then, or when
//     Run is to end, a process gets SIGTERM first and the grace period to act on it, then SIGKILL. On unix both reach its whole process
//     group, so that children of the program end too.
//  4. On Linux the processes end when this one dies, kill -9 included.
//
// The package never reads the environment, never restarts a process and never ends its own.
package launch
