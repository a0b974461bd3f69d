// Package unpack unpacks an image's archive, which is untrusted input, as root.
//
// Guarantees:
//
//  1. Nothing is made outside the directory: every call goes through os.Root, names are
//     checked as well, and a link must lead to something within the image. The rules are
//     those of pkg/archive, which the build applies too.
//  2. Only directories, regular files, symbolic links and hard links are made; never a
//     device, a fifo, or anything setuid, setgid or sticky. Owners in the archive are ignored.
//  3. No name is made twice, and no file is written through a link.
//  4. No more entries and no more bytes are read than the manifest says; memory is
//     bounded whatever the archive says (zstd window at most maxWindow).
//  5. No file is open for writing while this process forks, so that what was unpacked can be
//     executed at once.
//  6. Every refusal carries a stable code.
package unpack
