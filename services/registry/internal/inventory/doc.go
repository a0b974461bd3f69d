// Package inventory compares a server's report of its agents with what the ledger holds: the
// differences from its instances, and the agents that belong to no instance.
//
// Guarantees:
//
//  1. Differences is empty when a report contains what is already recorded, so that only
//     differences become facts.
//  2. Unmanaged returns the same list in whatever order the report names the agents.
//  3. The list of unmanaged agents is bounded in size, and MustWait bounds how often it changes.
package inventory
