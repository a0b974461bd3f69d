// Package triton reads dumps of a Triton data centre and says what Garrison makes of them. It is pure.
//
// A dump is any number of JSON files: arrays, one object a line, or single objects, as sdc-sapi, sdc-cnapi and
// sdc-imgadm print them. Objects are known by their shape, not by the name of their file.
//
//	| Triton                           | Garrison                                                          |
//	|----------------------------------|-------------------------------------------------------------------|
//	| SAPI application                 | application; its origin is triton:UUID                            |
//	| SAPI service of type agent       | agent; its origin is triton:UUID                                  |
//	| SAPI service of type vm          | agent of kind external, when a reporter is named                  |
//	| SAPI instance of type agent      | a wanted agent on a server                                        |
//	| CNAPI server, or its sysinfo     | server under its UUID and hostname, with labels                   |
//	| CNAPI server's agents            | wanted agents, with their versions                                |
//	| IMGAPI manifest                  | image, when a file beside it is one                               |
//
// Guarantees:
//
//  1. UUIDs, names and versions are kept as they are; what cannot be kept is listed with its reason and left out.
//  2. Real data is taken: numbers and truth values may be texts, and any field may be missing.
//  3. The same dump leads to the same objects, in whatever order its files and objects are.
//  4. A value whose name says that it is a secret is left out: the ledger never forgets.
package triton
