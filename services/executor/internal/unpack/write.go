package unpack

import (
	"errors"
	"os"
	"syscall"
)

// A process that is forked while a file is open for writing has the file open too, until it
// executes its own program. Meanwhile that file cannot be executed: ETXTBSY. Agents are
// started while others are unpacked, so no file is open for writing while this process forks:
// each piece is written with the lock held that a fork takes (syscall.ForkLock).
//
// A retry of the start would cover one of many places that execute what was unpacked: the
// agents, their probes and rehearsals, set-ups, the executor itself, and systemd.

// write opens a file, appends one piece and closes the file, while nothing is forked. A piece
// has at most the size of the unpacker's buffer, so that a fork waits for moments.
func (u *unpacker) write(name string, flags int, piece []byte) error {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	f, err := u.root.OpenFile(name, os.O_WRONLY|os.O_APPEND|flags, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(piece)
	return errors.Join(err, f.Close())
}

// pieces writes a file that is there, one piece after another.
type pieces struct {
	u    *unpacker
	name string
}

// Write implements io.Writer.
func (p *pieces) Write(piece []byte) (int, error) {
	if err := p.u.write(p.name, 0, piece); err != nil {
		return 0, err
	}
	return len(piece), nil
}
