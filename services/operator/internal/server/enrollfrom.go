package server

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/renameio/v2"
	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/listing"
	"github.com/garrison-fleet/garrison/pkg/regular"
	"github.com/garrison-fleet/garrison/pkg/text"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
)

const (
	// invitedAtOnce is how many servers one request invites.
	invitedAtOnce = 200
	// mostListed is how many servers a file lists at most.
	mostListed = 100_000
	// longestLine bounds a line of the file.
	longestLine = 64 << 10
)

// many is what invites the servers of a file.
type many struct {
	from, out, pooled string

	like *registryv1.InviteServerRequest // what holds for all of them
}

// enrollFrom invites the servers that a file lists, part by part, and writes the token of each to a file of its own. A
// server whose file exists was invited before.
func enrollFrom(ctx context.Context, env *cli.Env, m many) error {
	if m.out == "" {
		return cli.Usage("--from needs --out, the directory for the tokens. Try: garrison server enroll --from %s "+
			"--out tokens", m.from)
	}
	all, err := m.read(env)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(m.out, 0o700); err != nil {
		return err
	}
	have := len(all)
	all = slices.DeleteFunc(all, func(q *registryv1.InviteServerRequest) bool { return m.exists(q.GetName()) })
	before, invited, joined := have-len(all), 0, 0
	for part := range slices.Chunk(all, invitedAtOnce) {
		r, err := cli.Call[*registryv1.InviteServersResponse](ctx, env, &registryv1.InviteServersRequest{Servers: part})
		if err != nil {
			env.Say("%s invited; of the next %d none. The same command continues there",
				listing.Plural(invited, "server"), len(part))
			return err
		}
		for _, s := range r.GetServers() {
			if s.GetToken() == "" {
				joined++
				continue
			}
			invited++
			if err := renameio.WriteFile(m.file(s.GetName()), []byte(s.GetToken()+"\n"), 0o600); err != nil {
				return fmt.Errorf("keep the token of %s, which is lost; the same command makes another: %w",
					s.GetName(), err)
			}
		}
	}
	env.Say("%s invited, %d invited before, %d joined already; tokens in %s", listing.Plural(invited, "server"), before,
		joined, m.out)
	return nil
}

func (m many) file(name string) string { return filepath.Join(m.out, name+".token") }

func (m many) exists(name string) bool {
	_, err := os.Lstat(m.file(name))
	return !errors.Is(err, fs.ErrNotExist)
}

// read reads the file, or the standard input.
func (m many) read(env *cli.Env) ([]*registryv1.InviteServerRequest, error) {
	in := env.In
	if m.from != "-" {
		opened, err := regular.OpenNamed(m.from)
		if err != nil {
			return nil, err
		}
		defer func() { _ = opened.Close() }() // opened for reading only
		in = opened
	}
	return readServers(in, m.like)
}

// readServers reads one server a line: NAME [env=ENVIRONMENT] [cell=SITE] [id=UUID] [LABEL=VALUE]…, separated by blanks
// or commas. An empty line, and what follows a #, is skipped.
func readServers(from io.Reader, like *registryv1.InviteServerRequest) ([]*registryv1.InviteServerRequest, error) {
	in, err := text.NewReader(from)
	if err != nil {
		return nil, cli.Usage("the list of servers: %v", err)
	}
	var out []*registryv1.InviteServerRequest
	seen := map[string]int{}
	lines := bufio.NewScanner(in)
	lines.Buffer(make([]byte, 0, longestLine), longestLine)
	for n := 1; lines.Scan(); n++ {
		line, _, _ := strings.Cut(lines.Text(), "#")
		words := strings.FieldsFunc(line, func(r rune) bool { return r == ' ' || r == '\t' || r == ',' || r == '\r' })
		if len(words) == 0 {
			continue
		}
		q, err := serverOf(words, like)
		if err != nil {
			return nil, cli.Usage("line %d: %v", n, err)
		}
		if first := seen[q.Name]; first > 0 {
			return nil, cli.Usage("line %d: server %s is listed in line %d too", n, q.Name, first)
		}
		if seen[q.Name] = n; len(out) == mostListed {
			return nil, cli.Usage("line %d: more than %d servers; split the file", n, mostListed)
		}
		out = append(out, q)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read the list of servers: %w", err)
	}
	if len(out) == 0 {
		return nil, cli.Usage("the list has no server. Try a line such as: web-1 env=prod rack=a1")
	}
	return out, nil
}

// serverOf reads the words of one line. What it says wins over what holds for all.
func serverOf(words []string, like *registryv1.InviteServerRequest) (*registryv1.InviteServerRequest, error) {
	q := proto.CloneOf(like)
	if q.Labels == nil {
		q.Labels = map[string]string{}
	}
	if q.Name = words[0]; cli.ServerName(q.Name) != nil || strings.ContainsAny(q.Name, `=/\`) {
		return nil, fmt.Errorf("%q is not the name of a server", q.Name)
	}
	said := map[string]bool{}
	for _, word := range words[1:] {
		k, v, ok := strings.Cut(word, "=")
		switch {
		case !ok || k == "":
			return nil, fmt.Errorf("%q is not LABEL=VALUE, env=ENVIRONMENT, cell=SITE or id=UUID", word)
		case said[k]:
			return nil, fmt.Errorf("server %s has %s twice", q.Name, k)
		case k == "env":
			q.Environment = v
		case k == "cell":
			q.Cell = v
		case k == "id":
			q.ServerId = v
		default:
			q.Labels[k] = v
		}
		said[k] = true
	}
	return q, nil
}
