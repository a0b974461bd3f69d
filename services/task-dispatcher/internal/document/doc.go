// Package document projects the dispatcher's view onto the document of one server.
//
// Guarantees:
//
//  1. Project is a pure function of its rows, and Encode of the document: two dispatchers at the same
//     position of the ledger write the same bytes.
//  2. An instance has an entry at the image of its last admitted change, or a removal, or neither
//     before a change was admitted; never both.
//  3. A task is named only while it is under way.
//  4. The document of a dead server has no entry and no request.
package document
