package tcpstore

import (
	"bytes"

	"github.com/colligo-go/colligo/store"
)

// handlers answers the commands. An error closes the connection, which is all that the format has for a refusal.
var handlers = [commands]struct {
	name   string
	answer func(*session) error
}{
	cmdSet:        {"set", answerSet},
	cmdCompareSet: {"compare_set", answerCompareSet},
	cmdGet:        {"get", answerGet},
	cmdAdd:        {"add", answerAdd},
	cmdCheck:      {"check", answerCheck},
	cmdWait:       {"wait", answerWait},
	cmdNumKeys:    {"num_keys", answerNumKeys},
	cmdDelete:     {"delete_key", answerDelete},
	cmdAppend:     {"append", answerAppend},
	cmdMultiGet:   {"multi_get", answerMultiGet},
	cmdMultiSet:   {"multi_set", answerMultiSet},
	cmdCancelWait: {"cancel_wait", answerCancelWait},
	cmdPing:       {"ping", answerPing},
	cmdQueuePush:  {"queue_push", answerQueuePush},
	cmdQueuePop:   {"queue_pop", answerQueuePop},
	cmdQueueLen:   {"queue_len", answerQueueLen},
	cmdListKeys:   {"list_keys", answerListKeys},
	cmdBarrier:    {"barrier", answerBarrier},
}

func (c *session) table() *store.Table { return c.server.table }

// keyValue reads the arguments that most writing commands have.
func (c *session) keyValue() (string, []byte, error) {
	key, err := c.in.key()
	if err != nil {
		return "", nil, err
	}
	val, err := c.in.value()
	return key, val, err
}

func answerSet(c *session) error {
	key, val, err := c.keyValue()
	if err == nil {
		c.table().Set(key, val)
		c.wrote(key, val)
	}
	return err
}

func answerCompareSet(c *session) error {
	key, expected, err := c.keyValue()
	if err != nil {
		return err
	}
	desired, err := c.in.value()
	if err == nil {
		now := c.table().CompareSet(key, expected, desired)
		if bytes.Equal(now, desired) {
			c.wrote(key, desired)
		}
		c.out.bytes(now)
	}
	return err
}

// answerGet answers a missing key with an empty value. Clients wait for the key first.
func answerGet(c *session) error {
	key, err := c.in.key()
	if err == nil {
		val, _ := c.table().Get(key)
		c.out.bytes(val)
	}
	return err
}

func answerAdd(c *session) error {
	key, err := c.in.key()
	if err != nil {
		return err
	}
	delta, err := c.in.int64()
	if err != nil {
		return err
	}
	sum, err := c.table().Add(key, delta)
	if err == nil {
		c.out.int64(sum)
	}
	return err
}

func answerCheck(c *session) error {
	keys, err := c.in.keys()
	if err != nil {
		return err
	}
	if c.table().Check(keys) {
		c.out.byte(checkReady)
	} else {
		c.out.byte(checkNotReady)
	}
	return nil
}

func answerWait(c *session) error {
	keys, err := c.in.keys()
	if err != nil {
		return err
	}
	if c.watch = c.table().Watch(keys, c.released); c.watch == nil {
		c.out.byte(waitStopped)
	}
	return nil
}

func answerNumKeys(c *session) error {
	c.out.int64(int64(c.table().Len()))
	return nil
}

func answerDelete(c *session) error {
	key, err := c.in.key()
	if err != nil {
		return err
	}
	delete(c.stands, key)
	if c.table().Delete(key) {
		c.out.int64(1)
	} else {
		c.out.int64(0)
	}
	return nil
}

func answerAppend(c *session) error {
	key, val, err := c.keyValue()
	if err == nil {
		c.table().Append(key, val)
	}
	return err
}

func answerMultiGet(c *session) error {
	keys, err := c.in.keys()
	for _, k := range keys {
		val, _ := c.table().Get(k)
		c.out.bytes(val)
	}
	return err
}

// answerMultiSet stores each pair as it arrives, so that a long request takes no memory beyond its values.
func answerMultiSet(c *session) error {
	n, err := c.in.count()
	for range n {
		if err != nil {
			return err
		}
		err = answerSet(c)
	}
	return err
}

// answerCancelWait always answers. settle has ended the wait by now; if it came true before, that answer is on its way.
func answerCancelWait(c *session) error {
	c.out.byte(waitCanceled)
	return nil
}

func answerPing(c *session) error {
	nonce, err := c.in.uint32()
	if err == nil {
		c.out.uint32(nonce)
	}
	return err
}

func answerQueuePush(c *session) error {
	key, val, err := c.keyValue()
	if err == nil {
		c.table().Push(key, val)
	}
	return err
}

func answerQueuePop(c *session) error {
	key, err := c.in.key()
	if err != nil {
		return err
	}
	val, n := c.table().Pop(key)
	c.out.int64(int64(n))
	if n > 0 {
		c.out.bytes(val)
	}
	return nil
}

func answerQueueLen(c *session) error {
	key, err := c.in.key()
	if err == nil {
		c.out.int64(int64(c.table().QueueLen(key)))
	}
	return err
}

func answerListKeys(c *session) error {
	keys := c.table().Keys()
	c.out.int64(int64(len(keys)))
	for _, k := range keys {
		c.out.bytes([]byte(k))
	}
	return nil
}

func answerBarrier(c *session) error {
	key, err := c.in.key()
	if err != nil {
		return err
	}
	size, err := c.in.int64()
	if err != nil {
		return err
	}
	if c.watch, err = c.table().Arrive(key, size, c.released); c.watch == nil && err == nil {
		c.out.byte(waitStopped)
	}
	return err
}
