//go:build !seed_laterecord

package supervise

// announce writes down that a process will be started, before it exists.
func announce(r record, path string) error { return r.write(path) }
