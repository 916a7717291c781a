/* Has the name of a runtime's library, and does nothing. */
#ifdef FAKE_nosv

int nosv_init(void);
int nosv_fake(void);

int nosv_init(void) {
  return 0;
}
int nosv_fake(void) {
  return 0;
}

#else

int nosv_init(void);
int nodes_fake(void);

int nodes_fake(void) {
  return nosv_init();
}

#endif
