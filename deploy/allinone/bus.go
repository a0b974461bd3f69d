package allinone

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/google/renameio/v2"
	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/logs"
	"github.com/garrison-fleet/garrison/pkg/topology"
)

// maxPending bounds the bytes that wait for one client; one that falls behind further is disconnected. The bound is
// that of the services, too: with 16 MiB, one person's large requests disconnected the registry on a busy machine.
const maxPending = 64 << 20

// maxClosed is how many connections that ended the bus remembers, each with its login: for nats server report, not for
// Garrison. The server's own default, 10,000, is 14 MB after a fleet joined.
const maxClosed = 64

// noStoreLimit is a limit for the streams' files that is above the size of any disk.
const noStoreLimit = 1 << 60

// startBus starts the embedded nats-server in operator mode. It does not listen yet, unless it is one of a cluster: see
// listen.
func (g *Garrison) startBus(ctx context.Context) error {
	host, port, err := g.address()
	if err != nil {
		return err
	}
	if err := g.reservePorts(host, port); err != nil {
		return err
	}
	if err := g.openCerts(host); err != nil {
		return err
	}
	operator, err := jwt.DecodeOperatorClaims(g.authority.OperatorJWT)
	if err != nil {
		return fmt.Errorf("read operator JWT: %w", err)
	}
	resolver, lobby, err := g.accounts()
	if err != nil {
		return err
	}
	options := g.serverOptions(host)
	options.TrustedOperators = []*jwt.OperatorClaims{operator}
	options.AccountResolver, options.DefaultSentinel = resolver, lobby
	if len(g.config.Cluster) > 0 {
		if err := g.cluster(options, host); err != nil {
			return err
		}
	}
	if g.server, err = server.NewServer(options); err != nil {
		return err
	}
	log := &serverLog{log: g.logger("bus")}
	g.server.SetLoggerV2(log, false, false, false)
	// The server sets an account up when it meets it first, and then deletes the directory of its streams. Meet every
	// account before Start: a connection must not lead to that while the streams are declared.
	for public := range g.authority.Accounts {
		if _, err := g.server.LookupAccount(public); err != nil {
			return fmt.Errorf("load account: %w", err)
		}
	}
	g.server.Start()
	if err := waitListening(ctx, g.server, log.fatal); err != nil {
		return err
	}
	g.routes.release()
	return g.keepAddress(host, g.reserved.port)
}

const (
	// listensWithin is how long the embedded server has until it listens.
	listensWithin = 30 * time.Second
	// looksEvery is the pause between two looks whether it does.
	looksEvery = 100 * time.Millisecond
)

// waitListening waits until a server is ready for connections. It ends early with ctx, and with the error after which
// the server never is, which failed returns.
func waitListening(
	ctx context.Context, s interface{ ReadyForConnections(time.Duration) bool }, failed func() error,
) error {
	for began := time.Now(); !s.ReadyForConnections(looksEvery); {
		if err := cmp.Or(ctx.Err(), failed()); err != nil {
			return err
		}
		if time.Since(began) >= listensWithin {
			return fmt.Errorf("not ready for connections after %s", listensWithin)
		}
	}
	return nil
}

// serverOptions returns what the embedded server runs with, beside whom it trusts and its cluster.
func (g *Garrison) serverOptions(host string) *server.Options {
	return &server.Options{
		ServerName: "garrisond",
		Host:       host,
		Port:       g.reserved.port,
		DontListen: true,
		JetStream:  true,
		StoreDir:   g.streamsDir(),
		SyncAlways: !g.config.Lazy,
		// Without a limit the server would set one from the free space of now, and keep it
		// when there is more space later. The disk itself is the limit; see storeWatch.
		JetStreamMaxStore: noStoreLimit,
		SystemAccount:     g.authority.SystemAccount,
		NoSigs:            true, // signals are the process's, not the server's
		MaxPayload:        1 << 20,
		PingInterval:      topology.PingEveryOfBus,
		MaxPingsOut:       topology.PingsMissed,
		// Its first ping would come two seconds after the first bytes of a client, which takes it for a failed login
		// when the login is still under way.
		DisableShortFirstPing: true,
		MaxPending:            maxPending,
		MaxClosedClients:      maxClosed,
		WriteDeadline:         2 * time.Second,
		// A slow client may take longer, one that takes nothing may not.
		WriteTimeout: server.WriteTimeoutPolicyRetry,
		TLSConfig:    g.certs.config(),
		// A fleet that connects at once waits for this processor, not for the network.
		TLSTimeout:  topology.LoginWithin.Seconds(),
		AuthTimeout: (topology.LoginWithin + 5*time.Second).Seconds(),
		AllowNonTLS: bus.IsLoopback(host) || g.config.TLS.AllowPlain,
	}
}

// listen lets clients connect once every service answers. Before, a fleet that comes back would compete with the
// services for the processor, which would then be ready later. It blocks until ctx is done.
func (g *Garrison) listen(ctx context.Context) error {
	if err := g.waitServices(ctx); err != nil {
		return err
	}
	if len(g.config.Cluster) == 0 {
		g.server.AcceptLoop(make(chan struct{})) // it returns once it listens
	}
	g.reserved.release()
	if g.server.Addr() == nil {
		return fmt.Errorf("cannot listen at %s", g.url)
	}
	close(g.listening)
	<-ctx.Done()
	return ctx.Err()
}

// address returns the address to listen at: that of the configuration, with the port that was chosen before.
func (g *Garrison) address() (host string, port int, err error) {
	listen := g.config.Listen
	host, p, err := net.SplitHostPort(listen)
	if err != nil {
		return "", 0, fmt.Errorf("listen address %q: want host:port: %w", listen, err)
	}
	if port, err = strconv.Atoi(p); err != nil || port < 0 || port > 65535 {
		return "", 0, fmt.Errorf("listen address %q: %q is not a port", listen, p)
	}
	if port == 0 && len(g.config.Cluster) > 0 {
		return "", 0, fmt.Errorf("listen address %q: a member of a cluster needs a port, the same on each: "+
			"--listen HOST:4222", listen)
	}
	if port != 0 {
		return host, port, nil
	}
	return host, g.keptPort(), nil
}

// keptPort returns the port that was chosen before. Without one, or with a damaged file, it
// returns 0, for a free port.
func (g *Garrison) keptPort() int {
	kept, err := os.ReadFile(g.addressFile())
	if errors.Is(err, fs.ErrNotExist) {
		return 0
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
			Msg("kept address is damaged; choosing a new port: " +
				"servers and saved contexts that use the old one must be changed")
		return 0
	}
	return int(port)
}

// keepAddress records the address of the bus: the loopback address for a bus that listens
// on every interface. It does not write an address that is kept already, so that a start
// needs no disk space for it.
func (g *Garrison) keepAddress(host string, port int) error {
	advertise := advertised(g.config.Advertise, host, port)
	g.joinURL = "tls://" + advertise
	if isWildcard(host) {
		host = "127.0.0.1"
	}
	address := net.JoinHostPort(host, strconv.Itoa(port))
	g.url = "tls://" + address
	if len(g.config.Cluster) > 0 {
		g.joinURL = g.config.Cluster.urls(advertise)
		g.url = g.joinURL
	}
	if kept, err := os.ReadFile(g.addressFile()); err == nil && string(kept) == address+"\n" {
		return nil
	}
	return renameio.WriteFile(g.addressFile(), []byte(address+"\n"), 0o600)
}

// advertised returns the address that invited servers get: advertise with a port, or the address of the listener.
func advertised(advertise, host string, port int) string {
	if advertise == "" {
		if isWildcard(host) {
			host = "127.0.0.1"
		}
		return net.JoinHostPort(host, strconv.Itoa(port))
	}
	if _, _, err := net.SplitHostPort(advertise); err == nil {
		return advertise
	}
	return net.JoinHostPort(strings.Trim(advertise, "[]"), strconv.Itoa(port))
}

// openCerts makes or reads the certificate of the bus, which names every address that clients may use.
func (g *Garrison) openCerts(host string) error {
	names := localNames
	if bus.IsLoopback(host) {
		names = func() []string { return loopbackNames }
	}
	g.certs = &certs{
		TLS: g.config.TLS, trustDir: filepath.Join(g.config.Data, "trust"), log: g.logger("bus"), now: time.Now,
		hosts: func() []string {
			all := names()
			for _, h := range []string{host, hostOf(g.config.Advertise)} {
				if !isWildcard(h) {
					all = append(slices.Clone(all), h)
				}
			}
			return all
		},
	}
	log := g.logger("bus")
	if g.config.TLS.AllowPlain && !bus.IsLoopback(host) {
		log.Warn().Str("listen", host).Msg("PLAIN CONNECTIONS ARE ALLOWED FROM EVERY HOST: anybody on the way can " +
			"read and change what servers run; restart without --allow-plain once every server and person uses TLS")
	}
	if isWildcard(host) && g.config.Advertise == "" {
		log.Warn().Msg("tokens name 127.0.0.1 as the address of the bus; name this host with --advertise HOST")
	}
	return g.certs.load()
}

// hostOf returns the host of HOST or HOST:PORT.
func hostOf(address string) string {
	if host, _, err := net.SplitHostPort(address); err == nil {
		return host
	}
	return strings.Trim(address, "[]")
}

func (g *Garrison) addressFile() string { return filepath.Join(g.config.Data, "address") }

// lock takes the lock file, or returns an error when another process has it. The end of the process releases it.
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
