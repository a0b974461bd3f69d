// Package detect finds what runs or is installed on a server and is not Garrison's: candidates for
// adoption. It changes nothing.
//
// A Detector is one type with a name. The built-in ones read systemd's units, processes that listen,
// the packages of dpkg and rpm, and Triton's agents; programs in detectors.d add others (docs/adopt.md
// of the executor has their contract).
//
// Guarantees:
//
//  1. A scan ends within Within, and each detector within its share; one that fails or hangs costs
//     only its own rows, and the report says so.
//  2. A report has at most MaxBytes of candidates, and each detector at most MaxEach; what is left out
//     is counted.
//  3. The environment of a process is never read. Arguments are cut, and values behind names such as
//     --password are masked.
//  4. Files are opened below the directory that a detector reads, never outside of it through a
//     symbolic link, and only to a limited size.
//  5. Two scans of an unchanged server list the same candidates under the same ids.
package detect
