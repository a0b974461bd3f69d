// Package metrics measures a process for Prometheus, and serves its metrics and its health over HTTP on an address or
// a unix socket that a flag names.
//
//	GET /metrics   the metrics that All lists, and those of the Go runtime and the process, in Prometheus' text format
//	GET /healthz   200 while the process works, else 503 with the reason
//	GET /readyz    200 when the process can do all of its work, else 503 with a line for each part that cannot
//
// Guarantees:
//
//  1. Nothing listens unless a flag names an address.
//  2. A label has few values, which the program knows beforehand: never a server, an agent, a user or an intent. A code
//     that this program does not know counts as "other".
//  3. Reading metrics changes nothing in the process. What a reader would have to ask of the bus is bounded in time,
//     and is left out when it does not answer.
//  4. A nil Set measures nothing, and its methods may be called.
package metrics
