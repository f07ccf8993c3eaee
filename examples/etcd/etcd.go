package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/colligo-go/colligo/store"
)

// etcd is the keys of one job in etcd. It speaks version 3 of the interface as JSON, in which keys and values are base64, as
// package encoding/json writes slices of bytes.
type etcd struct {
	address, prefix string
}

var _ store.Core = (*etcd)(nil)

// fields is a message, or a part of one.
type fields map[string]any

// found is a key that etcd has.
type found struct{ Key, Value []byte }

// ask sends a request and reads the reply.
func (e *etcd) ask(ctx context.Context, call string, request fields, reply any) error {
	body, err := json.Marshal(request)
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, e.address+"/v3/kv/"+call, bytes.NewReader(body))
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	if answer.StatusCode != http.StatusOK {
		return errors.Join(fmt.Errorf("etcd: %s: %s", call, answer.Status), answer.Body.Close())
	}
	return errors.Join(json.NewDecoder(answer.Body).Decode(reply), answer.Body.Close())
}

func (e *etcd) key(key string) []byte { return []byte(e.prefix + key) }

// Load implements store.Core.
func (e *etcd) Load(ctx context.Context, key string) (val []byte, there bool, err error) {
	var reply struct{ Kvs []found }
	if err := e.ask(ctx, "range", fields{"key": e.key(key)}, &reply); err != nil || len(reply.Kvs) == 0 {
		return nil, false, err
	}
	return reply.Kvs[0].Value, true, nil
}

// Store implements store.Core.
func (e *etcd) Store(ctx context.Context, key string, val []byte) error {
	return e.ask(ctx, "put", fields{"key": e.key(key), "value": val}, &struct{}{})
}

// CompareAndSwap implements store.Core by a transaction. A key that is missing has version 0.
func (e *etcd) CompareAndSwap(ctx context.Context, key string, old, val []byte) (bool, error) {
	compare := fields{"key": e.key(key), "target": "VALUE", "value": old}
	if old == nil {
		compare = fields{"key": e.key(key), "target": "VERSION", "version": "0"}
	}
	put := fields{"requestPut": fields{"key": e.key(key), "value": val}}
	var reply struct{ Succeeded bool }
	err := e.ask(ctx, "txn", fields{"compare": []fields{compare}, "success": []fields{put}}, &reply)
	return reply.Succeeded, err
}

// Delete implements store.Core.
func (e *etcd) Delete(ctx context.Context, key string) (bool, error) {
	var reply struct{ Deleted string } // whole numbers of 64 bits are text
	err := e.ask(ctx, "deleterange", fields{"key": e.key(key)}, &reply)
	return reply.Deleted == "1", err
}

// Keys implements store.Core. The range of a prefix ends before the prefix with its last byte plus one.
func (e *etcd) Keys(ctx context.Context) (keys []string, err error) {
	end := []byte(e.prefix)
	end[len(end)-1]++
	var reply struct{ Kvs []found }
	err = e.ask(ctx, "range", fields{"key": []byte(e.prefix), "range_end": end, "keys_only": true}, &reply)
	for _, f := range reply.Kvs {
		keys = append(keys, strings.TrimPrefix(string(f.Key), e.prefix))
	}
	return keys, err
}
