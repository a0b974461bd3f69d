// Package failover takes servers of the bus away from a site of three garrisonds with simulated servers, while intents
// come at a constant rate, a client follows the ledger and an upgrade of the fleet is under way. Each loss is a row
// with what it cost: time, and what may never happen.
package failover
