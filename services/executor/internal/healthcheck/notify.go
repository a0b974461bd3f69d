package healthcheck

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
)

// maxSocketPath is what fits into sockaddr_un with its closing zero (unix(7)).
const maxSocketPath = 107

// Notify is a socket on which an agent sends READY=1 (sd_notify(3)).
type Notify struct {
	conn      *net.UnixConn
	path      string
	temporary string // a directory to delete with the socket, or empty
	ready     chan struct{}
	once      sync.Once
}

// ListenNotify opens the socket at path or, when that is too long for a socket, in a temporary directory that is
// deleted with it. owner is the user who may send there besides root, or -1. Only root may replace the socket.
func ListenNotify(path string, owner int) (*Notify, error) {
	n := &Notify{path: path, ready: make(chan struct{})}
	if len(path) > maxSocketPath {
		dir, err := os.MkdirTemp("/tmp", "garrison-")
		if err != nil {
			return nil, fmt.Errorf("open notify socket: %w", err)
		}
		n.temporary, n.path = dir, filepath.Join(dir, "notify")
	}
	_ = os.Remove(n.path) // left over from a crash
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: n.path, Net: "unixgram"})
	if err != nil {
		n.remove()
		return nil, fmt.Errorf("open notify socket: %w", err)
	}
	n.conn = conn
	if owner >= 0 {
		err = os.Chown(n.path, owner, -1)
	}
	if err == nil && owner >= 0 {
		err = os.Chmod(filepath.Dir(n.path), 0o711) // traversable, not listable
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open notify socket: %w", err), n.Close())
	}
	go n.listen()
	return n, nil
}

// Path returns the value of NOTIFY_SOCKET.
func (n *Notify) Path() string { return n.path }

// Ready returns a channel that is closed when READY=1 arrived.
func (n *Notify) Ready() <-chan struct{} { return n.ready }

// listen reads until the socket is closed.
func (n *Notify) listen() {
	buf := make([]byte, 4096)
	for {
		size, _, err := n.conn.ReadFromUnix(buf)
		if err != nil {
			return
		}
		for line := range strings.SplitSeq(string(buf[:size]), "\n") {
			if strings.TrimSpace(line) == "READY=1" {
				n.once.Do(func() { close(n.ready) })
			}
		}
	}
}

// Close closes the socket and deletes it.
func (n *Notify) Close() error {
	err := n.conn.Close()
	n.remove()
	return err
}

func (n *Notify) remove() {
	_ = os.Remove(n.path) // closing may have deleted it already
	if n.temporary != "" {
		_ = os.Remove(n.temporary)
	}
}

// SweepNotify deletes a socket that a crash left, and its temporary directory.
func SweepNotify(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if dir := filepath.Dir(path); strings.HasPrefix(dir, "/tmp/garrison-") {
		if err := os.Remove(dir); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return nil
}
