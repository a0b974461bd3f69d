// Package engine changes what is on the server: it installs, upgrades, configures, repairs,
// removes, watches and heals agents. It has no network: it takes documents, fetches through a
// Fetcher, and writes reports into the journal.
//
// The rooms around it: change is the life of one change, steps does its steps, agent runs
// agents, store keeps images, observe looks at the server. The engine is the loop: which
// changes begin, how many at once, what recovery does at the start, and the reports.
//
// Guarantees:
//
//  1. Every step of a change has its line in the journal before it begins, and every step may
//     be done again. Killed at any instant, the next start finishes the change or rolls it
//     back, without the bus, before it follows any document. A change during which the executor
//     crashed change.MaxCrashes times is rolled back before anything of it starts again, and one that a
//     document no longer wants before it resumes.
//  2. A version that fails its health check is rolled back: the link leads to the old version,
//     which runs again and is health-checked. A first install leaves nothing. The same holds for a
//     version with which the bus no longer answers.
//  3. A task that ended is never executed again; while a document still shows it, its end is
//     reported again.
//  4. Only a Removal with the instance's own id, or a document with a dead server, removes an
//     agent; and only what the inventory names.
//  5. A document never interrupts a change. Of several that wait the newest counts, and none
//     is older than the last one that was taken.
//  6. At most Parallel changes are under way, one for each agent.
//  7. An agent's sockets are open from before the switch until no version in the inventory
//     names them: a change closes none that it does not replace.
//  8. A new program of the executor itself takes over only after it passed its trial; until
//     then the old one is a step away, so it is rolled back like any other change.
//  9. An agent's configuration is rendered, whole and durable, before anything is touched, and
//     its link moves with the image's, there and back. A process whose image stays is signalled
//     or restarted only when what it reads, or how it runs, differs.
//  10. A damaged image is replaced by a whole copy, in one step, and what runs is restarted
//     from it. Nothing goes back to the damaged copy.
//  11. A removal moves everything that it deletes aside in one step. When it fails before that,
//     the agent is whole; afterwards the agent is gone, and what could not be deleted is in the
//     journal and retried.
package engine
