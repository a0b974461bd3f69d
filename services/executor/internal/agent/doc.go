// Package agent runs one agent on this server: its variables, processes, sockets and
// configuration, for the version that is installed and for the one that comes.
//
// Guarantees:
//
//  1. A version has one unit, shared by all callers, from the first use to Stop.
//  2. A process is started with its own version's environment, and with the sockets that the
//     version names.
//  3. Configs.Link leads to a whole configuration or returns an error.
//  4. A process whose image is damaged is not started while a repair may come, for 30 s at most.
package agent
