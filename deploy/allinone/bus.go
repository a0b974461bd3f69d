package allinone

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/google/renameio/v2"
	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"

	"github.com/garrison-fleet/garrison/pkg/logs"
)

// noStoreLimit is a limit for the streams' files that no disk reaches.
const noStoreLimit = 1 << 60

// startBus starts the embedded nats-server in operator mode.
func (g *Garrison) startBus() error {
	host, port, err := g.address()
	if err != nil {
		return err
	}
	if err := mayListen(host, port); err != nil {
		return err
	}
	operator, err := jwt.DecodeOperatorClaims(g.authority.OperatorJWT)
	if err != nil {
		return fmt.Errorf("read operator JWT: %w", err)
	}
	resolver := &server.MemAccResolver{}
	for public, token := range g.authority.Accounts {
		if err := resolver.Store(public, token); err != nil {
			return fmt.Errorf("load account: %w", err)
		}
	}
	g.server, err = server.NewServer(&server.Options{
		ServerName: "garrisond",
		Host:       host,
		Port:       port,
		JetStream:  true,
		StoreDir:   g.streamsDir(),
		SyncAlways: !g.config.Lazy,
		// Without a limit the server would take one from what is free now, and keep it
		// when there is room again. The disk itself is the limit; see storeWatch.
		JetStreamMaxStore: noStoreLimit,
		TrustedOperators:  []*jwt.OperatorClaims{operator},
		SystemAccount:     g.authority.SystemAccount,
		AccountResolver:   resolver,
		NoSigs:            true, // signals are the process's, not the server's
		MaxPayload:        1 << 20,
		PingInterval:      10 * time.Second,
		MaxPingsOut:       2,
		WriteDeadline:     10 * time.Second,
	})
	if err != nil {
		return err
	}
	g.server.SetLoggerV2(&serverLog{log: g.logger("bus")}, false, false, false)
	g.server.Start()
	if !g.server.ReadyForConnections(30 * time.Second) {
		return errors.New("not ready for connections after 30 s")
	}
	addr, ok := g.server.Addr().(*net.TCPAddr)
	if !ok {
		return errors.New("no TCP address")
	}
	return g.keepAddress(host, addr.Port)
}

// address gives where to listen: what the configuration says, or the port that was chosen before.
func (g *Garrison) address() (host string, port int, err error) {
	listen := g.config.Listen
	host, p, err := net.SplitHostPort(listen)
	if err != nil {
		return "", 0, fmt.Errorf("listen address %q: want host:port: %w", listen, err)
	}
	if port, err = strconv.Atoi(p); err != nil || port < 0 || port > 65535 {
		return "", 0, fmt.Errorf("listen address %q: %q is not a port", listen, p)
	}
	if port != 0 {
		return host, port, nil
	}
	return host, g.keptPort(), nil
}

// keptPort returns the port that was chosen before. Without one, or when what is kept
// cannot be read, it returns the server's mark for a free port.
func (g *Garrison) keptPort() int {
	kept, err := os.ReadFile(g.addressFile())
	if errors.Is(err, fs.ErrNotExist) {
		return server.RANDOM_PORT
	}
	var text string
	if err == nil {
		_, text, err = net.SplitHostPort(strings.TrimSpace(string(kept)))
	}
	var port uint64
	if err == nil {
		port, err = strconv.ParseUint(text, 10, 16)
	}
	if err != nil || port == 0 {
		log := g.logger("bus")
		log.Warn().Err(err).Str(logs.Path, g.addressFile()).
			Msg("kept address is damaged; choosing a new port: servers and saved contexts that use the old one must be changed")
		return server.RANDOM_PORT
	}
	return int(port)
}

// mayListen says at once that an address is taken: the server itself would try it, in
// silence, until it is given up.
func mayListen(host string, port int) error {
	l, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(max(port, 0))))
	if err != nil {
		return fmt.Errorf("%w; say where with --listen HOST:PORT", err)
	}
	return l.Close()
}

// keepAddress records where the bus listens. A bus on every interface is reached from
// this machine by the loopback address. An address that is kept already is not written
// again, so that a start needs no room for it.
func (g *Garrison) keepAddress(host string, port int) error {
	if host == "" || host == "0.0.0.0" || host == "::" {
		host = "127.0.0.1"
	}
	address := net.JoinHostPort(host, strconv.Itoa(port))
	g.url = "nats://" + address
	if kept, err := os.ReadFile(g.addressFile()); err == nil && string(kept) == address+"\n" {
		return nil
	}
	return renameio.WriteFile(g.addressFile(), []byte(address+"\n"), 0o600)
}

func (g *Garrison) addressFile() string { return filepath.Join(g.config.Data, "address") }

// lock takes the lock file, or says that somebody else has it. It is let go when the process ends, however it ends.
func lock(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock data directory: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("the data directory %s is in use by another garrisond", filepath.Dir(path))
	}
	return f, nil
}
