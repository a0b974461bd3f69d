package webhook

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"maps"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/nearest"
	"github.com/garrison-fleet/garrison/pkg/regular"
	"github.com/garrison-fleet/garrison/pkg/selection"
	"github.com/garrison-fleet/garrison/pkg/strictdir"
)

// The bounds of a file.
const (
	mostFile   = 256 << 10
	mostRoutes = 32
	mostFaults = 20
)

// readFile reads a file of routes. Its error lists every fault with its line.
func readFile(path string) (*settings, error) {
	r := &reader{file: path, into: &settings{}, sum: sha256.New()}
	if info, err := os.Stat(path); err == nil && info.Size() > mostFile {
		r.wrong(&yaml.Node{Line: 1}, "the file has %d bytes; %d are the most", info.Size(), mostFile)
		return nil, r.err()
	}
	data, err := strictdir.ReadSecret(path)
	if err != nil {
		return nil, fmt.Errorf("read the webhooks: %w", err)
	}
	r.sum.Write(data)
	var doc, second yaml.Node
	d := yaml.NewDecoder(bytes.NewReader(data))
	if err := d.Decode(&doc); err != nil && !errors.Is(err, io.EOF) {
		return nil, fault.Refusef(fault.Invalid, code.BadDeclaration, "%s: %v", path, err)
	}
	if err := d.Decode(&second); !errors.Is(err, io.EOF) {
		r.wrong(&second, "a second document; the file is one")
	}
	top := &yaml.Node{Line: 1}
	if len(doc.Content) > 0 {
		top = doc.Content[0]
	}
	r.pairs(top, "the file", map[string]func(*yaml.Node){
		"as":      func(n *yaml.Node) { r.into.as = r.path(n) },
		"console": func(n *yaml.Node) { r.into.console = strings.TrimRight(r.address(n), "/") },
		"routes":  r.routes,
	})
	if r.into.as == "" {
		r.wrong(top, "as: is missing, the context file of a user of the bus, such as garrison user create writes")
	}
	r.into.digest = hex.EncodeToString(r.sum.Sum(nil))
	return r.into, r.err()
}

// reader reads a file and gathers its faults.
type reader struct {
	file   string
	into   *settings
	sum    hash.Hash // of the file and of the CAs that it names
	faults []string
	at     int // the line of the route that is read
}

func (r *reader) wrong(n *yaml.Node, format string, args ...any) {
	line := cmp.Or(n.Line, r.at, 1)
	r.faults = append(r.faults, fmt.Sprintf("line %d: %s", line, fmt.Sprintf(format, args...)))
}

// err returns the faults, or nil.
func (r *reader) err() error {
	if len(r.faults) == 0 {
		return nil
	}
	if more := len(r.faults) - mostFaults; more > 0 {
		r.faults = append(r.faults[:mostFaults], fmt.Sprintf("and %d more", more))
	}
	return fault.Refusef(fault.Invalid, code.BadDeclaration, "%s: %s", r.file, strings.Join(r.faults, "; "))
}

// pairs calls the function of each key of a mapping.
func (r *reader) pairs(n *yaml.Node, what string, known map[string]func(*yaml.Node)) {
	if n.Kind != yaml.MappingNode {
		r.wrong(n, "%s is not a mapping of keys to values", what)
		return
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		read := known[key.Value]
		switch {
		case read == nil:
			near := nearest.Name(key.Value, maps.Keys(known))
			if near != "" {
				near = ". Nearest: " + near
			}
			r.wrong(key, "%s has no key %s%s", what, shown(key.Value), near)
		case seen[key.Value]:
			r.wrong(key, "%s has the key %q twice", what, key.Value)
		default:
			read(value)
		}
		seen[key.Value] = true
	}
}

// shown quotes a word of the file in a fault, but nothing that may be an address, which is a secret.
func shown(word string) string {
	if len(word) > 40 || strings.ContainsAny(word, ":/") {
		return "of this form"
	}
	return strconv.Quote(word)
}

// text returns a scalar, which must not be empty.
func (r *reader) text(n *yaml.Node) string {
	if n.Kind != yaml.ScalarNode || n.Value == "" {
		r.wrong(n, "want a text that is not empty")
		return ""
	}
	return n.Value
}

// texts returns a list of scalars, or one with commas.
func (r *reader) texts(n *yaml.Node) (all []string) {
	if n.Kind == yaml.SequenceNode {
		for _, c := range n.Content {
			all = append(all, r.text(c))
		}
		return all
	}
	for part := range strings.SplitSeq(r.text(n), ",") {
		all = append(all, strings.TrimSpace(part))
	}
	return all
}

// path returns a path, below the directory of the file unless it is absolute.
func (r *reader) path(n *yaml.Node) string {
	path := r.text(n)
	if path == "" || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(filepath.Dir(r.file), path)
}

// address returns an address of http or https. A fault does not hold it: it may be a secret.
func (r *reader) address(n *yaml.Node) string {
	text := r.text(n)
	u, err := url.Parse(text)
	switch {
	case text == "":
	case err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http":
		r.wrong(n, "want an address, such as https://HOST/PATH")
	case u.User != nil || u.Fragment != "":
		r.wrong(n, "an address has neither a user nor a fragment")
	default:
		return u.String() // with the scheme in lower case
	}
	return ""
}

func (r *reader) routes(n *yaml.Node) {
	if n.Kind != yaml.SequenceNode {
		r.wrong(n, "routes is not a list")
		return
	}
	if len(n.Content) > mostRoutes {
		r.wrong(n, "%d routes; %d are the most", len(n.Content), mostRoutes)
		return
	}
	for _, c := range n.Content {
		r.route(c)
	}
}

func (r *reader) route(n *yaml.Node) {
	var one route
	r.at = n.Line
	before := len(r.faults)
	r.pairs(n, "a route", map[string]func(*yaml.Node){
		"name": func(n *yaml.Node) {
			if one.name = r.text(n); one.name != "" && ident.CheckName("route", one.name) != nil {
				r.wrong(n, "%v", ident.CheckName("route", one.name))
			} else if r.into.named(one.name) != nil {
				r.wrong(n, "two routes have the name %q", one.name)
			}
		},
		"url":    func(n *yaml.Node) { one.url = r.address(n) },
		"noun":   func(n *yaml.Node) { one.filter.Nouns = r.oneOf(n, "noun", kindsBy(nounOf)) },
		"fact":   func(n *yaml.Node) { one.filter.Facts = r.oneOf(n, "fact", kindsBy(nameOf)) },
		"actor":  func(n *yaml.Node) { one.filter.Actor = r.text(n) },
		"id":     func(n *yaml.Node) { one.filter.IDs = r.texts(n) },
		"agent":  func(n *yaml.Node) { one.agent = r.text(n) },
		"on":     func(n *yaml.Node) { r.selector(n, &one) },
		"format": func(n *yaml.Node) { one.format = r.formatOf(n) },
		"body":   func(n *yaml.Node) { r.body(n, &one) },
		"allow":  func(n *yaml.Node) { r.networks(n, &one) },
		"ca":     func(n *yaml.Node) { r.bundle(n, &one) },
		"from":   func(n *yaml.Node) { r.sequence(n, &one) },
	})
	switch {
	case n.Kind != yaml.MappingNode:
	case one.name == "" || one.url == "":
		r.wrong(n, "a route needs a name and a url")
	case one.body != nil && one.format != "":
		r.wrong(n, "body: and format: exclude each other")
	case strings.HasPrefix(one.url, "http:") && len(one.allow) == 0:
		r.wrong(n, "a url without TLS needs allow: with the network of its target, which it does not leave")
	case len(r.faults) == before && !exists(one.filter.Nouns, one.filter.Facts):
		r.wrong(n, "no noun of the route has such a fact")
	}
	one.format = cmp.Or(one.format, structured)
	r.into.routes = append(r.into.routes, one)
}

func (r *reader) formatOf(n *yaml.Node) string {
	formats := r.oneOf(n, "format", []string{structured, binary})
	if len(formats) > 1 {
		r.wrong(n, "a route has one format")
	}
	return formats[0]
}

// oneOf returns words; it refuses one that is not known.
func (r *reader) oneOf(n *yaml.Node, what string, known []string) []string {
	words := r.texts(n)
	for _, word := range words {
		if word != "" && !slices.Contains(known, word) {
			r.wrong(n, "no %s %s. Nearest: %s", what, shown(word), nearest.Name(word, slices.Values(known)))
		}
	}
	return append(words, "")[:max(1, len(words))]
}

func (r *reader) selector(n *yaml.Node, one *route) {
	on := []string{}
	if n.Kind == yaml.SequenceNode {
		on = r.texts(n)
	} else {
		on = append(on, r.text(n))
	}
	var err error
	if one.on, err = selection.Parse(on); err != nil {
		r.wrong(n, "%v", err)
	}
}

func (r *reader) body(n *yaml.Node, one *route) {
	var err error
	if one.body, err = parseBody(r.text(n)); err != nil {
		r.wrong(n, "%v", err)
	}
}

func (r *reader) networks(n *yaml.Node, one *route) {
	for _, text := range r.texts(n) {
		p, err := netip.ParsePrefix(text)
		if err != nil || p != p.Masked() {
			r.wrong(n, "want networks, such as 10.1.0.0/16, with zeros behind the prefix")
			continue
		}
		one.allow = append(one.allow, p)
	}
}

func (r *reader) bundle(n *yaml.Node, one *route) {
	ca, err := regular.ReadFile(r.path(n))
	if err != nil {
		r.wrong(n, "%v", err)
	} else if !x509.NewCertPool().AppendCertsFromPEM(ca) {
		r.wrong(n, "the file has no certificate in PEM")
	}
	one.ca = ca
	r.sum.Write(ca)
}

func (r *reader) sequence(n *yaml.Node, one *route) {
	var err error
	if one.from, err = strconv.ParseUint(r.text(n), 10, 64); err != nil || one.from == 0 {
		r.wrong(n, "want the sequence of a fact, a whole number from 1")
	}
}

func nounOf(k ledger.Kind) string { return string(k.Noun) }
func nameOf(k ledger.Kind) string { return k.Name }

// kindsBy returns a name of each kind of fact.
func kindsBy(name func(ledger.Kind) string) (all []string) {
	for _, k := range ledger.Kinds {
		all = append(all, name(k))
	}
	return all
}

// exists reports whether there is a fact of one of the names about one of the nouns; an empty list means all.
func exists(nouns, facts []string) bool {
	return slices.ContainsFunc(ledger.Kinds, func(k ledger.Kind) bool {
		return (len(nouns) == 0 || slices.Contains(nouns, nounOf(k))) &&
			(len(facts) == 0 || slices.Contains(facts, nameOf(k)))
	})
}
