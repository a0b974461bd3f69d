// Package logview answers requests for the output of agents.
//
// Guarantees:
//
//  1. It answers only in sessions that the registry opened, and only the person for whom it did. The bus lets no
//     other user send those requests, and the registry recorded the person before.
//  2. It sends nothing unasked: each part answers one request, so a viewer who leaves costs nothing more. A session
//     ends IdleFor after the last request, and LastsFor after it was opened.
//  3. At most MostSessions are open at a time; one without a request for quietFor ends for another one. Of a person's
//     requests readsASecond are looked at, whatever session they name. A part has PartBytes at most, a session
//     partsASecond, and all sessions together bytesASecond.
//  4. It reads the output files of agents, also of first installs that were undone, and no other file.
package logview
