//go:build !seed_nosyncjournal

package journal

// noSync is false: an update returns when it is on the disk.
const noSync = false
