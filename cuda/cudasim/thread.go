package cudasim

// ThreadID names the calling operating system thread, as the simulation tells threads apart. Libraries that keep state by thread, and
// are simulated beside the devices, use it.
func ThreadID() uint64 { return threadID() }
