// Package bootstrap brings the ranks of a job together and lets them part. It finds out which rank this process is and opens
// the store where the ranks meet. It carries the messages that they leave one another there until they are linked. Package
// pg links them.
//
// Meet opens the store and returns the Job, which all groups of one Init share. A Formation is one rank's part in forming
// one group. Agree exchanges bootstrap info and chooses the medium, GiveUp leaves a reason behind, and Depart cleans up. An
// Epoch is one try of the ranks that are left to go on without the others.
//
// Invariants, numbered so that code and tests can cite them:
//
//  1. A process takes its rank from the URL's query, then from Options, then from the environment. The package reads no
//     environment itself: its caller hands it a Lookup.
//  2. Ranks that mean different groups do not link. Each compares the bootstrap info of all others with its own, and its
//     error names both sides.
//  3. A rank that leaves before the group has formed says why in its bootstrap info, and enters itself in the list of such ranks.
//     Ranks that wait look at the list from time to time. They return the reason of a rank that did not leave because of another.
//     Where rank 0 serves the store, it says so for a rank whose connection with the store has ended.
//  4. Every key that a rank puts into a store that outlives the job is removed. The rank does so, or else the first rank
//     that has not died.
//  5. A key's name and its value's format change only with formatVersion.
//  6. Waiting ends with the context, or by a limit of the package that is a constant.
package bootstrap
