package parity

const sharedMemory = true
