// Package control carries the messages between the ranks of a group that belong to no operation. They say that the group has
// failed, ask and answer progress queries, carry collective fingerprints, request dumps, and serve monitored barriers.
//
// A Channel is one rank's end. It sends over the mesh's control path, past all lanes, so that a message arrives although
// collectives stand still. An arriving message goes to one handler by its kind, on a goroutine of the mesh.
//
// Invariants:
//  1. The form of a Message as JSON is fixed: ranks of other builds and the error in a group's store have it.
//  2. A peer's message is hostile. It can add one entry to a bounded table, no more, and a late answer is dropped.
//  3. Sending never waits for the peer, and a message that cannot be sent is logged, never an error of the caller.
//  4. Each part has a lock of its own and calls nothing of the group while it holds it.
//
// The package decides nothing about a group: it neither fails it nor judges whose fault something is.
package control
