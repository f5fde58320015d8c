// A small block pool with a prefix cache in C++, with an interface in C for bindings. It knows nothing of kvproof.
// -DNO_ROOM_CHECK makes it take blocks from an empty queue, -DSTALE_KEY find blocks that were taken since.

#include <cstdint>
#include <unordered_map>
#include <vector>

struct Block {
  int number = 0, ref_cnt = 0;
  uint64_t key = 0;  // 0: it is cached under none
  Block *before = nullptr, *after = nullptr;
};

class Pool {
 public:
  Pool(int blocks, int block_tokens) : size_(block_tokens), blocks_(blocks) {
    for (int n = 0; n < blocks; n++) {
      blocks_[n].number = n;
      push(&blocks_[n]);
    }
  }

  // The blocks that hold the beginning of these tokens; the last token has to be computed in any case.
  std::vector<int> lookup(const int* tokens, int n) const {
    std::vector<int> found;
    uint64_t key = 1;
    for (int end = size_; end < n; end += size_) {
      key = chained(key, tokens + end - size_);
      auto at = cached_.find(key);
      if (at == cached_.end()) break;
      found.push_back(at->second->number);
    }
    return found;
  }

  // Blocks for so many tokens in all; a request that is new takes hold of what was found. Null: no room.
  const std::vector<int>* allocate(int request, const int* found, int n, int tokens) {
    auto known = tables_.find(request);
    int held = known == tables_.end() ? n : static_cast<int>(known->second.size());
    int missing = (tokens + size_ - 1) / size_ - held;
    int idle = 0;
    for (int i = 0; known == tables_.end() && i < n; i++) idle += blocks_[found[i]].ref_cnt == 0;
#ifndef NO_ROOM_CHECK
    if (missing > free_ - idle) return nullptr;
#endif
    std::vector<int>& table = tables_[request];
    if (known == tables_.end())
      for (int i = 0; i < n; i++) {
        touch(&blocks_[found[i]]);
        table.push_back(found[i]);
      }
    for (int i = 0; i < missing; i++) table.push_back(take());
    return &table;
  }

  // These tokens are computed: the blocks that they fill can be found from now on.
  void commit(int request, const int* tokens, int n) {
    uint64_t key = 1;
    for (int end = size_; end <= n; end += size_) {
      key = chained(key, tokens + end - size_);
      Block* block = &blocks_[tables_[request][end / size_ - 1]];
      if (block->key == 0 && cached_.emplace(key, block).second) block->key = key;
    }
  }

  void release(int request) {
    std::vector<int>& table = tables_[request];
    for (auto at = table.rbegin(); at != table.rend(); ++at)
      if (--blocks_[*at].ref_cnt == 0) push(&blocks_[*at]);
    tables_.erase(request);
  }

  int ref_cnt(int block) const { return blocks_[block].ref_cnt; }

  std::vector<int> queue() const {
    std::vector<int> numbers;
    for (Block* block = head_; block; block = block->after) numbers.push_back(block->number);
    return numbers;
  }

 private:
  uint64_t chained(uint64_t key, const int* tokens) const {
    for (int i = 0; i < size_; i++) {
      key = (key + static_cast<uint64_t>(tokens[i]) + 1) * 0x9E3779B97F4A7C15u;
      key ^= key >> 29;
    }
    return key;
  }

  void touch(Block* block) {
    if (block->ref_cnt == 0) unlink(block);
    block->ref_cnt++;
  }

  int take() {
    Block* block = head_;
    unlink(block);
#ifndef STALE_KEY
    if (block->key) cached_.erase(block->key);
#endif
    block->key = 0;
    block->ref_cnt = 1;
    return block->number;
  }

  void push(Block* block) {
    block->before = tail_;
    block->after = nullptr;
    (tail_ ? tail_->after : head_) = block;
    tail_ = block;
    free_++;
  }

  void unlink(Block* block) {
    (block->before ? block->before->after : head_) = block->after;
    (block->after ? block->after->before : tail_) = block->before;
    free_--;
  }

  int size_, free_ = 0;
  std::vector<Block> blocks_;
  Block *head_ = nullptr, *tail_ = nullptr;
  std::unordered_map<uint64_t, Block*> cached_;
  std::unordered_map<int, std::vector<int>> tables_;
};

static int copied(const std::vector<int>& numbers, int* out) {
  for (std::size_t i = 0; i < numbers.size(); i++) out[i] = numbers[i];
  return static_cast<int>(numbers.size());
}

extern "C" {
Pool* pool_new(int blocks, int block_tokens) { return new Pool(blocks, block_tokens); }
void pool_delete(Pool* pool) { delete pool; }
int pool_lookup(Pool* pool, const int* tokens, int n, int* out) { return copied(pool->lookup(tokens, n), out); }
int pool_allocate(Pool* pool, int request, const int* found, int n, int tokens, int* out) {
  const std::vector<int>* table = pool->allocate(request, found, n, tokens);
  return table ? copied(*table, out) : -1;
}
void pool_commit(Pool* pool, int request, const int* tokens, int n) { pool->commit(request, tokens, n); }
void pool_release(Pool* pool, int request) { pool->release(request); }
int pool_ref_cnt(Pool* pool, int block) { return pool->ref_cnt(block); }
int pool_queue(Pool* pool, int* out) { return copied(pool->queue(), out); }
}
