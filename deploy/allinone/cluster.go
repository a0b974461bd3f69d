package allinone

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/topology"
	"github.com/garrison-fleet/garrison/pkg/trust"
)

// Member is one garrisond of a cluster.
type Member struct {
	Host string
	Port int // where the other members reach it
}

// Members are the garrisonds of a cluster. The zero value means that this one is alone.
type Members []Member

// clusterSize is how many members a cluster has: with three, one may fail.
const clusterSize = 3

// clusterName is that of deploy/nats/cluster.conf: streams are placed by it, so it never changes.
const clusterName = "garrison"

// ParseMembers reads HOST[:PORT] of each member, with commas.
func ParseMembers(text string) (Members, error) {
	var all Members
	for one := range strings.SplitSeq(text, ",") {
		m, err := parseMember(strings.TrimSpace(one))
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(all, func(o Member) bool { return o.Host == m.Host }) {
			return nil, fmt.Errorf("%q appears twice; each member needs a host of its own", m.Host)
		}
		all = append(all, m)
	}
	if len(all) != clusterSize {
		return nil, fmt.Errorf("%d members, want %d: HOST,HOST,HOST", len(all), clusterSize)
	}
	return all, nil
}

func parseMember(text string) (Member, error) {
	host, port := text, routePort
	if h, p, err := net.SplitHostPort(text); err == nil {
		host, port = h, p
	}
	host = strings.Trim(host, "[]")
	number, err := strconv.ParseUint(port, 10, 16)
	if !strings.Contains(text, "/") && (err != nil || number == 0) {
		return Member{}, fmt.Errorf("%q: %q is not a port", text, port)
	}
	if host == "" || strings.ContainsAny(text, "/ @*>") || strings.Contains(host, ":") && net.ParseIP(host) == nil {
		return Member{}, fmt.Errorf("%q is not HOST or HOST:PORT", text)
	}
	return Member{host, int(number)}, nil
}

// String returns the members as ParseMembers reads them.
func (m Members) String() string {
	var out []string
	for _, one := range m {
		out = append(out, net.JoinHostPort(one.Host, strconv.Itoa(one.Port)))
	}
	return strings.Join(out, ",")
}

// own returns the member that listens at a host and is advertised under another one, if any.
func (m Members) own(listen, advertise string) (Member, error) {
	name := listen
	if advertise != "" {
		name = hostOf(advertise)
	}
	for _, one := range m {
		if one.Host == name {
			return one, nil
		}
	}
	return Member{}, fmt.Errorf("%s, the address of this garrisond, is not among the members %s; name it with "+
		"--listen or --advertise as --cluster does", name, m)
}

// urls returns the addresses of all members for clients: every member has the port of this one's address.
func (m Members) urls(address string) string {
	_, port, _ := net.SplitHostPort(address)
	var out []string
	for _, one := range m {
		out = append(out, "tls://"+net.JoinHostPort(one.Host, port))
	}
	return strings.Join(out, ",")
}

// streamsDir is where the bus keeps its streams. A member of a cluster never keeps them where a garrisond that was
// alone does: a cluster deletes streams that it does not know, and those of a cluster are of no use to one server.
func (g *Garrison) streamsDir() string {
	if len(g.config.Cluster) > 0 {
		return filepath.Join(g.config.Data, "cluster")
	}
	return filepath.Join(g.config.Data, "jetstream")
}

// checkMembership refuses to start a garrisond with the streams of a cluster alone, and one with streams of its own as
// a member.
func (g *Garrison) checkMembership() error {
	of, other, way := "a member of a cluster", filepath.Join(g.config.Data, "cluster"),
		"start it with the --cluster that it had"
	if len(g.config.Cluster) > 0 {
		of, other = "a garrisond that was alone", filepath.Join(g.config.Data, "jetstream")
		way = "start the members with other directories (garrisond export-keys, import-keys), then move the streams " +
			"with garrisond grow"
	}
	have, err := os.ReadDir(other)
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(have) == 0 {
		return nil
	}
	if err != nil {
		return err
	}
	return fmt.Errorf("%s holds the streams of %s: %s", g.config.Data, of, way)
}

// cluster makes the options of a server those of a member. Routes begin behind the listener for clients, so a member
// listens before its services answer.
func (g *Garrison) cluster(o *server.Options, listen string) error {
	own, err := g.config.Cluster.own(listen, g.config.Advertise)
	if err != nil {
		return err
	}
	config, err := g.routeTLS()
	if err != nil {
		return err
	}
	o.ServerName, o.DontListen = own.Host, false
	o.Cluster = server.ClusterOpts{
		Name: clusterName, Host: listen, Port: own.Port, NoAdvertise: true, TLSConfig: config,
		TLSTimeout: topology.ReachWithin.Seconds(), PingInterval: topology.PingEveryOfSeveral,
	}
	for _, m := range g.config.Cluster {
		o.Routes = append(o.Routes, &url.URL{
			Scheme: "nats-route", Host: net.JoinHostPort(m.Host, strconv.Itoa(m.Port)),
		})
	}
	return nil
}

// routeTLS returns how members know each other: by a certificate of the CA whose key they share, also where clients
// are shown a certificate of the operator.
func (g *Garrison) routeTLS() (*tls.Config, error) {
	g.routeCerts = &certs{
		trustDir: g.certs.trustDir, hosts: g.certs.hosts, log: g.certs.log, now: g.certs.now,
		TLS: TLS{Names: g.certs.Names},
	}
	if err := g.routeCerts.load(); err != nil {
		return nil, err
	}
	bundle, err := g.routeCerts.Bundle()
	if err != nil {
		return nil, err
	}
	all, err := trust.ParseBundle(bundle)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	for _, ca := range all {
		pool.AddCert(ca)
	}
	config := g.routeCerts.config()
	config.ClientAuth, config.ClientCAs, config.RootCAs = tls.RequireAndVerifyClientCert, pool, pool
	config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		return g.routeCerts.current.Load(), nil
	}
	return config, nil
}

// provisionCluster declares the streams with a replica on each member, once a majority of the members is there. Each
// member does, and what another one declared is left as it is. A bus without services is left empty: for garrisond
// provision, or for garrisond grow, which wants it so.
func (g *Garrison) provisionCluster(ctx context.Context, s *bus.Streams) error {
	if len(g.config.Services) == 0 {
		return nil
	}
	log, said := g.logger("bus"), false
	for {
		once, cancel := context.WithTimeout(ctx, askedWithin)
		err := s.Provision(once, topology.Bus{Replicas: clusterSize, SyncsAlways: !g.config.Lazy})
		if err == nil {
			err = provisionCopy(once, g, s, clusterSize)
		}
		cancel()
		if err == nil || ctx.Err() != nil || !bus.NotReady(err) {
			return err
		}
		if !said {
			log.Info().AnErr("because", err).Str("members", g.config.Cluster.String()).
				Msg("waiting for the other members of the cluster, and for one to lead")
			said = true
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(askedEvery):
		}
	}
}
