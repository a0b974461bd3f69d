// Package lru keeps what was used last, up to a number of bytes.
package lru

import (
	"container/list"
	"sync"
)

// Cache holds values by key. It is safe for concurrent use.
type Cache[K comparable, V any] struct {
	limit int

	mu    sync.Mutex
	used  int
	order *list.List // of *entry, the last used first
	byKey map[K]*list.Element
}

type entry[K comparable, V any] struct {
	key   K
	value V
	bytes int
}

// New returns an empty cache that holds so many bytes.
func New[K comparable, V any](limit int) *Cache[K, V] {
	return &Cache[K, V]{limit: limit, order: list.New(), byKey: map[K]*list.Element{}}
}

// Get returns a value, and reports whether it is there.
func (c *Cache[K, V]) Get(key K) (v V, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	at, ok := c.byKey[key]
	if !ok {
		return v, false
	}
	c.order.MoveToFront(at)
	return at.Value.(*entry[K, V]).value, true
}

// Put keeps a value that takes so many bytes, and drops what was used longest ago until all fit. A value that
// is larger than the cache is not kept.
func (c *Cache[K, V]) Put(key K, value V, bytes int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if at, ok := c.byKey[key]; ok {
		c.drop(at)
	}
	if bytes > c.limit {
		return
	}
	c.byKey[key] = c.order.PushFront(&entry[K, V]{key, value, bytes})
	for c.used += bytes; c.used > c.limit; {
		c.drop(c.order.Back())
	}
}

func (c *Cache[K, V]) drop(at *list.Element) {
	e := c.order.Remove(at).(*entry[K, V])
	delete(c.byKey, e.key)
	c.used -= e.bytes
}

// Bytes returns how many bytes the values take.
func (c *Cache[K, V]) Bytes() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.used
}
