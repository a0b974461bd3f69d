// Package attack is the book of attacks: what a server, a guest, a person or a service
// may try with its real credentials against others, what stops it, and what it costs them.
// It runs against the shipped binaries, as garrisond and with the services apart.
//
// Guarantees:
//
//  1. An entry fails when the attack succeeds. Each one succeeded before its defence was built.
//  2. `make attack` runs the whole book and prints a line for each attack; CI runs the same
//     entries with short floods, against garrisond.
//  3. All entries share one fleet, in which the server "victim" is healthy: an executor with
//     the agent beacon. An attack is made with a server of its own, which has no executor.
//
// An entry is a value in a file of the part that it is about, such as floods_test.go:
//
//	func init() {
//		add(attack{
//			name: "read another server's document", as: "server",
//			tried: "a direct get on its subject", stopped: "the permissions of servers",
//			run: func(t *trial) string {
//				c := t.connect(t.attacker.login)
//				document := topology.NodesAPI + ".DIRECT.GET.DESIRED." + topology.DesiredSubject(t.victim.address)
//				if t.denied(c, document) == nil {
//					t.Error("the bus let it pass")
//				}
//				return "refused by the bus"
//			},
//		})
//	}
//
// A flood has the field flood instead: it sends until its context ends, and the book
// measures upgrades of the victim with it and without.
package attack
