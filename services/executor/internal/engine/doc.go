// Package engine changes what is on the server: it installs, upgrades, removes, watches
// and heals agents. It has no network. It takes documents, fetches through a Fetcher,
// and says reports into the journal.
//
// Guarantees:
//
//  1. Every step of a change has its line in the journal before it begins, and every
//     step may be done again. Killed at any instant, the next start finishes the change
//     or undoes it, without the bus, before it looks at any document.
//  2. A version that does not prove itself is undone: the link leads back, and the old
//     one runs again and is proven. A first install leaves nothing.
//  3. A task that ended is never executed again; while a document still shows it, its
//     end is reported again.
//  4. Only a Removal with the instance's own id, or a document that says the server is
//     dead, removes an agent; and only what the inventory says.
//  5. A document never interrupts a change. Of several that wait, the newest counts, and
//     none is older than the last one that was taken.
//  6. At most Parallel changes are under way, one for an agent.
//  7. An agent's sockets are open from before the switch until no version in the
//     inventory names them: a change closes none that it does not replace.
//  8. A new program of the executor itself takes its place only after it was proven in it;
//     until then the old one is a step away, and so it is undone like any other change.
//  9. An agent's configuration is rendered, whole and durable, before anything is touched,
//     and its link goes with the image's, there and back. A process whose image stays is
//     told of a change or started anew only when what it reads, or how it is run, differs.
//  10. A damaged image is replaced by a whole copy, in one step, and what runs is started anew
//     from it. Nothing goes back to the damaged one.
//  11. A removal moves everything that it deletes aside in one step. One that fails before it
//     leaves the agent whole; after it the agent is gone, and what could not be deleted is in
//     the journal and tried again.
package engine
