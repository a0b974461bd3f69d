// Package sim simulates servers: each has its own key, credentials and connection, and the executor's own link,
// enrolment and renewal. Only the engine is pretended: it changes a map in memory instead of a machine.
//
// Guarantees:
//
//  1. What a server sends is made of the messages that the executor sends, in the same order, and is published until it
//     is acknowledged.
//  2. A server that is started again continues: it keeps its identity, agents, ended tasks and unacknowledged reports.
//  3. Which fault a server has, and how long a task takes, follows from the seed and the host name alone.
//  4. A fleet has one file open for each server, its connection, and SpareFiles more at most.
//  5. Check compares the ledger with what the servers did, and changes nothing.
package sim
